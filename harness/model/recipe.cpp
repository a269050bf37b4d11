#include "harness/model/recipe.h"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

// Mean 0, variance 1, at most 3.47 in magnitude: the sum of four 16-bit uniforms (Irwin-Hall).
double normal(std::uint64_t bits) {
  const std::uint64_t sum =
      (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<double>(sum) + 2) * 0x1.bb67ae8584caap-16 - 2 * 0x1.bb67ae8584caap0;
}

// In (0, 1].
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

std::uint64_t hash(std::string_view text) {
  std::uint64_t result = 0;
  for (char c : text) result = mix(result ^ static_cast<unsigned char>(c));
  return result;
}

// Powers of two that suit a dtype's range.
struct Range2 {
  double tiny;         // products of two of these underflow
  double subnormal;    // itself below the smallest normal
  double huge;         // sums of a few thousand stay finite
  double huge_factor;  // for tensors that are multiplied with each other once more
  double small;        // upstream beside huge values
};

Range2 range_of(DType type) {
  switch (type) {
    case DType::kF64:
      return {0x1p-520, 0x1p-1030, 0x1p400, 0x1p200, 0x1p-200};
    case DType::kF16:
      return {0x1p-12, 0x1p-19, 0x1p11, 0x1p4, 0x1p-8};
    default:
      return {0x1p-70, 0x1p-130, 0x1p100, 0x1p40, 0x1p-60};
  }
}

bool uses(const Operator& op, std::string_view key) {
  return std::find(op.keys.begin(), op.keys.end(), key) != op.keys.end();
}

}  // namespace

Recipe::Recipe(const Problem& problem, const TensorSpec& spec)
    : problem_(problem), spec_(spec), base_(mix(problem.seed ^ hash(spec.name))) {
  scores_ = problem.op != nullptr && uses(*problem.op, "mask");
  projects_scores_ = scores_ && spec.role == Role::kActivation;
  const int last = spec.shape.rank() - 1;
  row_length_ = last >= 0 ? std::max<Index>(spec.shape[last], 1) : 1;
  tokens_ = spec.token_dimension >= 0 ? spec.shape[spec.token_dimension] : 1;
  for (int d = spec.token_dimension + 1; spec.token_dimension >= 0 && d <= last; ++d) {
    token_stride_ *= std::max<Index>(spec.shape[d], 1);
  }
}

Index Recipe::token(Index position) const {
  return position / token_stride_ % std::max<Index>(tokens_, 1);
}

// The draw number `counter` for the element at `position`.
std::uint64_t Recipe::bits(Index position, Index counter) const {
  const std::uint64_t base = is_redrawn(position) ? mix(base_ + kGolden) : base_;
  return mix(base + static_cast<std::uint64_t>(counter) * kGolden);
}

bool Recipe::is_redrawn(Index position) const {
  return problem_.edit == Edit::kFrom && spec_.token_dimension >= 0 &&
         (spec_.role == Role::kKey || spec_.role == Role::kValue ||
          spec_.role == Role::kActivation) &&
         token(position) >= problem_.edit_at;
}

double Recipe::operator()(Index position) const {
  const double n = normal(bits(position));
  switch (problem_.data) {
    case DataRecipe::kNormal:
      return n;
    case DataRecipe::kHeavyTailed:
      return heavy_tailed(n, position);
    case DataRecipe::kPeaked:
      return peaked(n);
    case DataRecipe::kRamped:
      return ramped(n, position);
    case DataRecipe::kCancellation:
      return cancelling(n);
    case DataRecipe::kTiny:
      return tiny(n, position);
    case DataRecipe::kHuge:
      return huge(n);
    case DataRecipe::kConstantRows:
      return spec_.role == Role::kUpstream ? n : normal(bits(position, position / row_length_));
    case DataRecipe::kInteger:
      return integer(position);
    case DataRecipe::kCoordinates:
      return spec_.role == Role::kUpstream ? n : coordinate(position);
    case DataRecipe::kSunken:
      return sunken(n, position);
  }
  return n;
}

// Under a mask, activations are what queries and keys are projected from.
bool Recipe::makes_scores() const {
  return spec_.role == Role::kQuery || spec_.role == Role::kKey || projects_scores_;
}

// Tail exponent 2; queries and keys are held back so that scores stay in the tens.
double Recipe::heavy_tailed(double n, Index position) const {
  const double u = uniform(mix(bits(position)));
  return n / std::sqrt(std::max(u, makes_scores() ? 0.125 : 0x1p-8));
}

double Recipe::peaked(double n) const {
  if (makes_scores()) return (projects_scores_ ? 1.5 : 3) * n;
  return spec_.role == Role::kActivation ? 4 * n : n;
}

// Component 0 of q and k makes logits run from about -96 to 96 over the keys.
double Recipe::ramped(double n, Index position) const {
  if (spec_.token_dimension < 0 || spec_.role == Role::kUpstream) return n;
  const double at =
      tokens_ > 1 ? static_cast<double>(token(position)) / static_cast<double>(tokens_ - 1) : 0.5;
  if (spec_.role == Role::kActivation) return n * (0.25 + (projects_scores_ ? 1.5 : 3) * at);
  if (!makes_scores() || position % row_length_ != 0) return n;
  if (spec_.role == Role::kQuery) return 4 * std::sqrt(static_cast<double>(row_length_));
  return 24 * (2 * at - 1);
}

// Component 0 of q and k takes every logit down alike.
double Recipe::sunken(double n, Index position) const {
  if (spec_.token_dimension < 0 || position % row_length_ != 0) return n;
  if (spec_.role == Role::kQuery) return 4 * std::sqrt(static_cast<double>(row_length_));
  return spec_.role == Role::kKey ? n - 5000 : n;
}

double Recipe::cancelling(double n) const {
  const bool offset = spec_.role == Role::kValue || spec_.role == Role::kActivation;
  if (!offset) return n;
  if (projects_scores_) return n + 2;  // scores grow with its square
  const bool narrow = spec_.dtype == DType::kBf16 || spec_.dtype == DType::kF16;
  return n + (narrow ? 16 : 1000);
}

double Recipe::tiny(double n, Index position) const {
  const Range2 range = range_of(spec_.dtype);
  const bool rare = (bits(position) & 7) == 0;
  // Products of tiny values with tiny upstream gradients are nothing at all: now and then.
  const auto which = problem_.seed % 4;
  // Tokens that are all tiny would be all alike to their projections.
  const bool is_value =
      spec_.role == Role::kValue || (spec_.role == Role::kActivation && !projects_scores_);
  const bool scaled = is_value ? which != 1 : spec_.role == Role::kUpstream && which < 2;
  if (!scaled) return rare ? n * range.tiny : n;
  return n * (rare ? range.subnormal : range.tiny);
}

double Recipe::huge(double n) const {
  const Range2 range = range_of(spec_.dtype);
  switch (spec_.role) {
    case Role::kValue:
      return n * range.huge;
    case Role::kActivation:
      return projects_scores_ ? n : n * range.huge_factor;
    case Role::kUpstream:
      return n * range.small;
    case Role::kWeight:
    case Role::kBias:  // behind the softmax
      return scores_ && spec_.value_power == 1 ? n * range.huge_factor : n;
    default:
      return n;
  }
}

// -2..2; upstream gradients are never zero.
double Recipe::integer(Index position) const {
  const std::uint64_t draw = bits(position) >> 32;
  if (spec_.role == Role::kUpstream) {
    return static_cast<double>(draw % 2 + 1) * (draw & 4 ? 1 : -1);
  }
  return static_cast<double>(draw % 5) - 2;
}

// A low-discrepancy sequence over [-sqrt(3), sqrt(3)): no two elements of a tensor are alike.
double Recipe::coordinate(Index position) const {
  const auto step =
      static_cast<std::int64_t>((static_cast<std::uint64_t>(position) + 1) * kGolden + base_);
  const double value = static_cast<double>(step) * 0x1p-63 * 0x1.bb67ae8584caap0;
  return is_redrawn(position) ? -value : value;
}

}  // namespace shardproof
