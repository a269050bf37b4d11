#include "harness/plugin/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/model/operator.h"
#include "harness/model/require.h"
#include "parallel_impls/precision.h"

namespace shardproof {
namespace {

static_assert(static_cast<int>(DType::kF16) == SHARDPROOF_F16);
static_assert(static_cast<int>(Activation::kSilu) == SHARDPROOF_SILU);
static_assert(static_cast<int>(Collective::kRingShift) == SHARDPROOF_RING_SHIFT);

// Every rounding of both structs.
struct Rounding {
  const char* name;
  shardproof_dtype shardproof_contract::*promise;
  DType Precision::*precision;
};
constexpr std::array<Rounding, 13> kRoundings{{
    {"accumulator", &shardproof_contract::accumulator, &Precision::accumulator},
    {"elementwise", &shardproof_contract::elementwise, &Precision::elementwise},
    {"score", &shardproof_contract::score, &Precision::score},
    {"probability", &shardproof_contract::probability, &Precision::probability},
    {"score_gradient", &shardproof_contract::score_gradient, &Precision::score_gradient},
    {"saved_out", &shardproof_contract::saved_out, &Precision::saved_out},
    {"lse", &shardproof_contract::lse, &Precision::lse},
    {"block_out", &shardproof_contract::block_out, &Precision::block_out},
    {"query_gradient", &shardproof_contract::query_gradient, &Precision::query_gradient},
    {"kv_gradient", &shardproof_contract::kv_gradient, &Precision::kv_gradient},
    {"operand", &shardproof_contract::operand, &Precision::operand},
    {"middle", &shardproof_contract::middle, &Precision::middle},
    {"reduction", &shardproof_contract::reduction, &Precision::reduction},
}};

struct LibraryError {
  const char* name;
  double shardproof_contract::*promise;
  double Precision::*precision;
};
constexpr std::array<LibraryError, 4> kLibraryErrors{{
    {"ulp_exp", &shardproof_contract::ulp_exp, &Precision::ulp_exp},
    {"ulp_log", &shardproof_contract::ulp_log, &Precision::ulp_log},
    {"ulp_tanh", &shardproof_contract::ulp_tanh, &Precision::ulp_tanh},
    {"ulp_erf", &shardproof_contract::ulp_erf, &Precision::ulp_erf},
}};

shardproof_contract as_promise(const Contract& contract) {
  const Precision& precision = contract.precision;
  shardproof_contract promise{};
  for (const Rounding& each : kRoundings) {
    promise.*each.promise = static_cast<shardproof_dtype>(precision.*each.precision);
  }
  for (const LibraryError& each : kLibraryErrors) {
    promise.*each.promise = precision.*each.precision;
  }
  promise.truncating = precision.truncating;
  promise.merge_blocks = precision.merge_blocks;
  promise.rescales = precision.rescales;
  promise.repeatable = contract.bitwise_repeatable;
  promise.schedule_independent = contract.bitwise_across_schedules;
  promise.hidden_may_be_nan = 0;
  return promise;
}

// Changes an attention problem into one that keeps these limits.
void keep_limits(std::uint32_t limits, Problem& problem) {
  const auto has = [&](std::uint32_t limit) { return (limits & limit) != 0; };
  if (has(SHARDPROOF_DIMS_OF_8)) {
    for (Index* dim : {&problem.dim, &problem.dim_v}) *dim = (*dim + 7) / 8 * 8;
  }
  if (has(SHARDPROOF_SAME_DIMS)) problem.dim_v = problem.dim;
  if (has(SHARDPROOF_SAME_HEADS)) problem.kv_heads = problem.heads;
  if (has(SHARDPROOF_SAME_LENGTHS)) problem.kv = problem.q;
}

}  // namespace

shardproof_problem problem_of(const Case& value) {
  const Problem& problem = value.problem;
  shardproof_problem result{};
  result.op = problem.op->name.data();
  result.world = value.placement.world.c_str();
  result.dtype = static_cast<shardproof_dtype>(problem.dtype);
  result.mask = problem.mask.mask == nullptr ? "" : problem.mask.mask->name.data();
  result.batch = problem.batch;
  result.heads = problem.heads;
  result.kv_heads = problem.kv_heads;
  result.queries = problem.q;
  result.keys = problem.kv;
  result.dim = problem.dim;
  result.dim_v = problem.dim_v;
  result.scale = effective_scale(problem);
  result.softcap = effective_softcap(problem);
  result.has_bias = problem.bias != ScoreBias::kNone;
  result.has_sink = problem.sink;
  result.tokens = problem.tokens;
  result.features = problem.features;
  result.hidden = problem.hidden;
  result.outputs = problem.outputs;
  result.activation = static_cast<shardproof_activation>(problem.activation);
  result.gated = problem.gated;
  result.collective = static_cast<shardproof_collective>(problem.collective);
  result.parts = problem.parts;
  result.count = problem.count;
  result.root = problem.root;
  return result;
}

Precision default_precision(const Problem& problem) {
  return problem.op->name == "attention" ? attention_precision(problem) : precision_of(problem);
}

Contract promised(const shardproof_subject& subject, const Case& value, Contract defaults) {
  shardproof_contract promise = as_promise(defaults);
  if (subject.contract != nullptr) {
    const shardproof_problem problem = problem_of(value);
    subject.contract(&problem, &promise);
    if (const std::string why = broken_promise(promise); !why.empty()) {
      throw Error(fmt::format("the contract of {}: {}", subject.name, why));
    }
  }
  Precision& precision = defaults.precision;
  for (const Rounding& each : kRoundings) {
    precision.*each.precision = static_cast<DType>(promise.*each.promise);
  }
  for (const LibraryError& each : kLibraryErrors) {
    precision.*each.precision = promise.*each.promise;
  }
  precision.truncating = promise.truncating != 0;
  precision.merge_blocks = promise.merge_blocks != 0;
  precision.rescales = std::max(promise.rescales, 1);
  defaults.bitwise_repeatable = promise.repeatable != 0;
  defaults.bitwise_across_schedules = promise.schedule_independent != 0;
  defaults.hidden_may_be_nan = promise.hidden_may_be_nan != 0;
  return defaults;
}

std::string broken_promise(const shardproof_contract& promise) {
  for (const Rounding& each : kRoundings) {
    const auto type = static_cast<unsigned>(promise.*each.promise);
    if (type <= SHARDPROOF_F16) continue;
    return fmt::format("{} is {}, no dtype; choices: SHARDPROOF_F64, _F32, _TF32, _BF16, _F16",
                       each.name, type);
  }
  for (const LibraryError& each : kLibraryErrors) {
    const double error = promise.*each.promise;
    if (error >= 0.5 && error <= 1e6) continue;
    return fmt::format("{} is {}, no number from 0.5 to 1e6", each.name, error);
  }
  if (promise.rescales < 0) return fmt::format("rescales is {}, below 0", promise.rescales);
  return {};
}

std::string tighter_promise(const Precision& promise, const Precision& defaults) {
  for (const Rounding& each : kRoundings) {
    if (format(promise.*each.precision).precision > format(defaults.*each.precision).precision) {
      return each.name;
    }
  }
  for (const LibraryError& each : kLibraryErrors) {
    if (promise.*each.precision < defaults.*each.precision) return each.name;
  }
  return {};
}

std::string choices_of_dtypes() {
  std::string choices;
  for (DType type : all_dtypes()) {
    choices += (choices.empty() ? "" : ", ") + std::string(format(type).name);
  }
  return choices;
}

std::string missing_feature(const shardproof_subject& subject, const Case& value) {
  const Problem& problem = value.problem;
  const auto lacks = [&](int feature) { return (subject.features & feature) == 0; };
  const bool is_attention = problem.op->name == "attention";
  if (value.placement.device != "cpu") return "computes in the memory of the host: device=cpu";
  if (subject.dtypes != 0 && (subject.dtypes >> static_cast<unsigned>(problem.dtype) & 1) == 0) {
    return fmt::format("dtype {} is none of its own", format(problem.dtype).name);
  }
  if (is_attention && problem.dropout > 0) return "plugins know no dropout";
  if (is_attention && problem.rotary > 0) return "plugins know no rotary positions";
  if (is_attention && problem.softcap > 0 && lacks(SHARDPROOF_SOFTCAP)) return "has no softcap";
  if (is_attention && problem.bias != ScoreBias::kNone && lacks(SHARDPROOF_BIAS)) {
    return "has no score bias";
  }
  if (is_attention && problem.sink && lacks(SHARDPROOF_SINK)) return "has no sinks";
  if (problem.op->name == "mlp" && problem.gated && lacks(SHARDPROOF_GATED)) return "has no gate";
  Problem within = problem;
  if (is_attention) keep_limits(subject.limits, within);
  if (within != problem) return "has dims, heads or lengths that it does not do";
  if (subject.unsupported == nullptr) return {};
  const shardproof_problem plain = problem_of(value);
  const char* why = subject.unsupported(&plain);
  return why == nullptr ? "" : why;
}

void remove_features(const shardproof_subject& subject, Case& value) {
  Problem& problem = value.problem;
  const auto lacks = [&](int feature) { return (subject.features & feature) == 0; };
  problem.dropout = 0;
  problem.rotary = 0;
  if (lacks(SHARDPROOF_SOFTCAP)) problem.softcap = 0;
  if (lacks(SHARDPROOF_BIAS)) problem.bias = ScoreBias::kNone;
  if (lacks(SHARDPROOF_SINK)) problem.sink = false;
  if (lacks(SHARDPROOF_GATED)) problem.gated = false;
  if (problem.op->name == "attention") keep_limits(subject.limits, problem);
  const auto has = [&](unsigned type) { return (subject.dtypes >> type & 1) != 0; };
  if (subject.dtypes == 0 || has(static_cast<unsigned>(problem.dtype))) return;
  auto type = static_cast<unsigned>(problem.dtype);
  while (!has(type)) type = (type + 1) % all_dtypes().size();
  problem.dtype = static_cast<DType>(type);
}

}  // namespace shardproof
