#include "harness/model/element.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/model/edit.h"
#include "harness/model/require.h"
#include "harness/model/swamped.h"
#include "harness/model/word.h"

namespace shardproof {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio

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

// Draws the elements of one tensor.
class Drawer {
 public:
  Drawer(const Problem& problem, const TensorSpec& spec)
      : problem_(problem), spec_(spec), base_(mix(problem.seed ^ hash(spec.name))) {
    const int last = spec.shape.rank() - 1;
    row_length_ = last >= 0 ? std::max<Index>(spec.shape[last], 1) : 1;
    tokens_ = spec.token_dimension >= 0 ? spec.shape[spec.token_dimension] : 1;
    for (int d = spec.token_dimension + 1; spec.token_dimension >= 0 && d <= last; ++d) {
      token_stride_ *= std::max<Index>(spec.shape[d], 1);
    }
    // Weights shrink with the number of terms that their product sums; integers stay integers.
    if (spec.role == Role::kWeight && problem.data != DataRecipe::kInteger) {
      scale_ = 1 / std::sqrt(static_cast<double>(std::max<Index>(spec.shape[0], 1)));
    }
  }

  double operator()(Index position) {
    if (spec_.role == Role::kWord) return drawn_word(problem_, bits(position));
    const double value = rounded(scale_ * raw(position));
    return problem_.edit == Edit::kNone ? value : edited(position, value);
  }

 private:
  Index token(Index position) const {
    return position / token_stride_ % std::max<Index>(tokens_, 1);
  }

  // What the problem's edit makes of `value`; redrawn tokens are edited where they are drawn.
  double edited(Index position, double value) {
    switch (problem_.edit) {
      case Edit::kNone:
      case Edit::kFrom:
        return value;
      case Edit::kHiddenNan:
        return is_hidden(position) || is_padding(position) ? kNan : value;
      case Edit::kNanToken:
        return is_query() && token(position) == problem_.edit_at ? kNan : value;
      case Edit::kUpstreamTwice:
        return spec_.kind == TensorKind::kUpstream ? rounded(2 * value) : value;
      case Edit::kValuesTwice:
        return spec_.value_power == 1 ? rounded(2 * value) : value;
      case Edit::kUniform:
        return uniform_attention(position, value);
      case Edit::kNudge:
        return nudged(position, value);
      case Edit::kSwamped:
        return swamped(spec_, position, bits(drawn_at(spec_, position)));
    }
    return value;
  }

  // Activations are the queries of operators that project them.
  bool is_query() const {
    const bool has_tokens = spec_.token_dimension >= 0;
    return has_tokens && (spec_.role == Role::kQuery || spec_.role == Role::kActivation);
  }

  double uniform_attention(Index position, double value) const {
    if (spec_.role == Role::kQuery || spec_.role == Role::kScoreBias) return 0;
    if (spec_.role != Role::kValue) return value;
    return token(position) % row_length_ == position % row_length_ ? 1 : 0;
  }

  double nudged(Index position, double value) const {
    const double step = scale_ * kNudges[static_cast<std::size_t>(problem_.edit_at)];
    if (spec_.kind != TensorKind::kInput) return value;
    return rounded(value + (mix(bits(position)) & 1 ? step : -step));
  }

  std::uint64_t bits(Index position) const { return bits(position, position); }

  // The draw number `counter` for the element at `position`.
  std::uint64_t bits(Index position, Index counter) const {
    const std::uint64_t base = is_edited(position) ? mix(base_ + kGolden) : base_;
    return mix(base + static_cast<std::uint64_t>(counter) * kGolden);
  }

  bool is_edited(Index position) const {
    return problem_.edit == Edit::kFrom && spec_.token_dimension >= 0 &&
           (spec_.role == Role::kKey || spec_.role == Role::kValue ||
            spec_.role == Role::kActivation) &&
           token(position) >= problem_.edit_at;
  }

  // Whether this logit is of a column that is no word.
  bool is_padding(Index position) const {
    return spec_.role == Role::kActivation &&
           position % row_length_ >= row_length_ - problem_.padding;
  }

  // Whether no query of its batch entry sees this key: found once for the elements of a token that
  // are drawn one after another.
  bool is_hidden(Index position) {
    if (spec_.role != Role::kKey && spec_.role != Role::kValue) return false;
    const Index row = position / token_stride_;
    if (row == judged_row_) return hidden_;
    judged_row_ = row;
    const Index batch = row / std::max<Index>(tokens_, 1);
    const Index key = token(position);
    hidden_ = true;
    for (Index query = 0; query < problem_.q && hidden_; ++query) {
      hidden_ = !visible(problem_, batch, query, key);
    }
    return hidden_;
  }

  double raw(Index position) const {
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
    }
    return n;
  }

  bool makes_scores() const { return spec_.role == Role::kQuery || spec_.role == Role::kKey; }

  // Tail exponent 2; queries and keys are held back so that scores stay in the tens.
  double heavy_tailed(double n, Index position) const {
    const double u = uniform(mix(bits(position)));
    return n / std::sqrt(std::max(u, makes_scores() ? 0.125 : 0x1p-8));
  }

  double peaked(double n) const {
    if (makes_scores()) return 3 * n;
    return spec_.role == Role::kActivation ? 4 * n : n;
  }

  // Component 0 of q and k makes logits run from about -96 to 96 over the keys.
  double ramped(double n, Index position) const {
    if (spec_.token_dimension < 0 || spec_.role == Role::kUpstream) return n;
    const double at =
        tokens_ > 1 ? static_cast<double>(token(position)) / static_cast<double>(tokens_ - 1) : 0.5;
    if (spec_.role == Role::kActivation) return n * (0.25 + 3 * at);
    if (!makes_scores() || position % row_length_ != 0) return n;
    if (spec_.role == Role::kQuery) return 4 * std::sqrt(static_cast<double>(row_length_));
    return 24 * (2 * at - 1);
  }

  double cancelling(double n) const {
    const bool offset = spec_.role == Role::kValue || spec_.role == Role::kActivation;
    if (!offset) return n;
    const bool narrow = spec_.dtype == DType::kBf16 || spec_.dtype == DType::kF16;
    return n + (narrow ? 16 : 1000);
  }

  double tiny(double n, Index position) const {
    const Range2 range = range_of(spec_.dtype);
    const bool rare = (bits(position) & 7) == 0;
    const bool scaled = spec_.role == Role::kValue || spec_.role == Role::kActivation ||
                        spec_.role == Role::kUpstream;
    if (!scaled) return rare ? n * range.tiny : n;
    return n * (rare ? range.subnormal : range.tiny);
  }

  double huge(double n) const {
    const Range2 range = range_of(spec_.dtype);
    if (spec_.role == Role::kValue) return n * range.huge;
    if (spec_.role == Role::kActivation) return n * range.huge_factor;
    return spec_.role == Role::kUpstream ? n * range.small : n;
  }

  // -2..2; upstream gradients are never zero.
  double integer(Index position) const {
    const std::uint64_t draw = bits(position) >> 32;
    if (spec_.role == Role::kUpstream) {
      return static_cast<double>(draw % 2 + 1) * (draw & 4 ? 1 : -1);
    }
    return static_cast<double>(draw % 5) - 2;
  }

  // A low-discrepancy sequence over [-sqrt(3), sqrt(3)): no two elements of a tensor are alike.
  double coordinate(Index position) const {
    const auto step =
        static_cast<std::int64_t>((static_cast<std::uint64_t>(position) + 1) * kGolden + base_);
    const double value = static_cast<double>(step) * 0x1p-63 * 0x1.bb67ae8584caap0;
    return is_edited(position) ? -value : value;
  }

  // Rounding by way of f32 is part of the definition of the value.
  double rounded(double value) const {
    switch (spec_.dtype) {
      case DType::kF64:
        return value;
      case DType::kF32:
        return static_cast<float>(value);
      case DType::kTf32:
        return tf32_value(static_cast<float>(value));
      case DType::kBf16:
        return bf16_value(bf16_bits(static_cast<float>(value)));
      case DType::kF16:
        return f16_value(f16_bits(static_cast<float>(value)));
    }
    return value;
  }

  const Problem& problem_;
  const TensorSpec& spec_;
  std::uint64_t base_;
  Index row_length_ = 1;
  Index tokens_ = 1;
  Index token_stride_ = 1;
  double scale_ = 1;
  Index judged_row_ = -1;  // batch and token that hidden_ is about
  bool hidden_ = false;
};

}  // namespace

void fill_elements(const Problem& problem, const TensorSpec& spec, std::span<const Index> positions,
                   std::span<double> values) {
  require(positions.size() == values.size(), "one value a position");
  Drawer drawer(problem, spec);
  for (std::size_t i = 0; i < positions.size(); ++i) values[i] = drawer(positions[i]);
}

std::vector<double> whole_tensor(const Problem& problem, const TensorSpec& spec) {
  Drawer drawer(problem, spec);
  std::vector<double> values(static_cast<std::size_t>(spec.shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawer(static_cast<Index>(i));
  return values;
}

}  // namespace shardproof
