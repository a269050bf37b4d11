#include "harness/model/problem.h"

#include <array>
#include <cmath>

#include "harness/model/element.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 3> kBiases{"none", "alibi", "dense"};
constexpr std::array<std::string_view, 5> kPositionIds{"arange", "offset", "cached", "documents",
                                                       "permuted"};
constexpr std::array<std::string_view, 4> kActivations{"relu", "gelu", "gelu_tanh", "silu"};
constexpr std::array<std::string_view, 2> kNorms{"rms", "layer"};
constexpr std::array<std::string_view, 6> kCollectives{"all_reduce", "all_gather", "reduce_scatter",
                                                       "all_to_all", "broadcast",  "ring_shift"};
constexpr std::array<std::string_view, 11> kRecipes{
    "normal", "heavy_tailed",  "peaked",  "ramped",      "cancellation", "tiny",
    "huge",   "constant_rows", "integer", "coordinates", "sunken"};

double as_accumulator(const Problem& problem, double value) {
  return round_to(accumulator_of(problem.dtype), value);
}

}  // namespace

std::span<const std::string_view> names_of_score_bias() { return kBiases; }
std::span<const std::string_view> names_of_position_ids() { return kPositionIds; }
std::span<const std::string_view> names_of_activation() { return kActivations; }
std::span<const std::string_view> names_of_norm() { return kNorms; }
std::span<const std::string_view> names_of_collective() { return kCollectives; }
std::span<const std::string_view> names_of_recipe() { return kRecipes; }

double effective_scale(const Problem& problem) {
  const double scale =
      problem.scale != 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.dim));
  return as_accumulator(problem, scale);
}

double effective_softcap(const Problem& problem) {
  return as_accumulator(problem, problem.softcap);
}

double dropout_factor(const Problem& problem) {
  return as_accumulator(problem, 1 / (1 - problem.dropout));
}

bool is_kept(std::uint64_t seed, double dropout, Index batch, Index head, Index query, Index key) {
  std::uint64_t bits = mix(seed + 1);
  for (Index coordinate : {batch, head, query, key}) {
    bits = mix(bits + static_cast<std::uint64_t>(coordinate) + 1);
  }
  return static_cast<double>(bits >> 11) * 0x1p-53 >= dropout;
}

bool has_offset(PositionIds positions) {
  return positions == PositionIds::kOffset || positions == PositionIds::kCached;
}

Index rotary_position(const Problem& problem, Side side, Index token) {
  switch (problem.positions) {
    case PositionIds::kArange:
      return token;
    case PositionIds::kOffset:
      return token + problem.position_offset;
    case PositionIds::kCached:
      return side == Side::kQueries ? token + problem.position_offset : token;
    case PositionIds::kDocuments:
      return token - problem.mask.mask->document_start(mask_arguments(problem), token);
    case PositionIds::kPermuted:
      return token ^ 5;
  }
  return token;
}

Turn rotary_turn(double base, Index dim, Index position, Index pair, DType type) {
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(dim);
  const double angle = static_cast<double>(position) * std::pow(base, exponent);
  return {round_to(type, std::cos(angle)), round_to(type, std::sin(angle))};
}

double effective_smoothing(const Problem& problem) {
  return as_accumulator(problem, problem.smoothing);
}

double effective_max_norm(const Problem& problem) {
  return as_accumulator(problem, problem.max_norm);
}

double effective_epsilon(const Problem& problem) {
  return as_accumulator(problem, problem.epsilon);
}

MaskArguments mask_arguments(const Problem& problem) {
  return {problem.q, problem.kv, problem.mask.a, problem.mask.b, problem.seed};
}

bool visible(const Problem& problem, Index batch, Index query, Index key) {
  return problem.mask.mask->visible(mask_arguments(problem), batch, query, key);
}

double alibi_slope(const Problem& problem, Index head) {
  const double exponent = -8.0 * static_cast<double>(head + 1) / static_cast<double>(problem.heads);
  return round_to(DType::kBf16, std::exp2(exponent));
}

}  // namespace shardproof
