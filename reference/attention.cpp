// The operator attention: q, k, v (, bias, sink) -> out, lse; dout, dlse -> dq, dk, dv (, dbias,
// dsink).
#include "reference/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "harness/model/edit.h"
#include "harness/model/element.h"
#include "reference/hypotheses.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 17> kKeys{
    "batch",   "heads",   "q",      "kv",        "dim",   "mask", "bias", "sink", "scale",
    "softcap", "dropout", "rotary", "positions", "dtype", "data", "seed", "edit"};

DType statistics_type(const Problem& problem) { return accumulator_of(problem.dtype); }

std::vector<TensorSpec> tensors(const Problem& p) {
  const Shape q{p.batch, p.q, p.heads, p.dim};
  const Shape out{p.batch, p.q, p.heads, p.dim_v};
  const Shape k{p.batch, p.kv, p.kv_heads, p.dim};
  const Shape v{p.batch, p.kv, p.kv_heads, p.dim_v};
  const Shape lse{p.batch, p.heads, p.q};
  const Shape bias{p.heads, p.q, p.kv};
  const Shape sink{p.heads};
  const DType statistics = statistics_type(p);
  const bool biased = p.bias == ScoreBias::kDense;
  std::vector<TensorSpec> specs{{"q", TensorKind::kInput, Role::kQuery, p.dtype, q, 1},
                                {"k", TensorKind::kInput, Role::kKey, p.dtype, k, 1},
                                {"v", TensorKind::kInput, Role::kValue, p.dtype, v, 1, 1}};
  if (biased) specs.push_back({"bias", TensorKind::kInput, Role::kScoreBias, p.dtype, bias, 1});
  if (p.sink) specs.push_back({"sink", TensorKind::kInput, Role::kScoreBias, p.dtype, sink});
  specs.push_back({"dout", TensorKind::kUpstream, Role::kUpstream, p.dtype, out, 1});
  specs.push_back({"dlse", TensorKind::kUpstream, Role::kUpstream, statistics, lse, 2, 1});
  specs.push_back({"out", TensorKind::kOutput, Role::kActivation, p.dtype, out, 1, 1});
  specs.push_back({"lse", TensorKind::kOutput, Role::kActivation, statistics, lse, 2});
  specs.push_back({"dq", TensorKind::kGradient, Role::kQuery, p.dtype, q, 1, 1});
  specs.push_back({"dk", TensorKind::kGradient, Role::kKey, p.dtype, k, 1, 1});
  specs.push_back({"dv", TensorKind::kGradient, Role::kValue, p.dtype, v, 1});
  if (biased) {
    specs.push_back({"dbias", TensorKind::kGradient, Role::kScoreBias, p.dtype, bias, 1, 1});
  }
  if (p.sink) {
    specs.push_back({"dsink", TensorKind::kGradient, Role::kScoreBias, p.dtype, sink, -1, 1});
  }
  return specs;
}

void repair_mask(Problem& p) {
  const auto& parameters = p.mask.mask->parameters;
  const std::array<Index*, 2> values{&p.mask.a, &p.mask.b};
  for (std::size_t i = 0; i < values.size(); ++i) {
    *values[i] = i < parameters.size()
                     ? std::clamp(*values[i], parameters[i].minimum,
                                  std::max(parameters[i].minimum, parameters[i].maximum(p.q, p.kv)))
                     : 0;
  }
}

bool has_documents(const Problem& p) { return p.mask.mask->document_start != nullptr; }

void repair_positions(Problem& p) {
  if (!(p.rotary >= 1 && p.rotary < 1e30) || p.dim % 2 != 0) p.rotary = 0;
  const bool lost = p.positions == PositionIds::kDocuments && !has_documents(p);
  if (p.rotary == 0 || lost) p.positions = PositionIds::kArange;
  p.position_offset = has_offset(p.positions) ? std::max<Index>(p.position_offset, 0) : 0;
}

void repair(Problem& p) {
  for (Index* length : {&p.batch, &p.q, &p.kv}) *length = std::max<Index>(*length, 0);
  for (Index* extent : {&p.heads, &p.kv_heads, &p.dim, &p.dim_v}) {
    *extent = std::max<Index>(*extent, 1);
  }
  p.kv_heads = std::min(p.kv_heads, p.heads);
  while (p.heads % p.kv_heads != 0) --p.kv_heads;
  repair_mask(p);
  // A negative or undefined factor becomes the default.
  if (!(p.scale > 0 && p.scale < 1e30)) p.scale = 0;
  if (!(p.softcap > 0 && p.softcap < 1e30)) p.softcap = 0;
  if (!(p.dropout > 0 && p.dropout < 1)) p.dropout = 0;
  repair_positions(p);
  repair_edit(p, tensors(p));
}

std::string broken_number(std::string_view name, Index value, Index minimum) {
  return value >= minimum ? "" : fmt::format("{}={} must be at least {}", name, value, minimum);
}

std::string broken_mask(const Problem& p) {
  const auto& parameters = p.mask.mask->parameters;
  const std::array<Index, 2> values{p.mask.a, p.mask.b};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Index maximum = std::max(parameters[i].minimum, parameters[i].maximum(p.q, p.kv));
    if (values[i] < parameters[i].minimum || values[i] > maximum) {
      return fmt::format("mask={}: {}={} must lie in {}..{}", p.mask.text(), parameters[i].name,
                         values[i], parameters[i].minimum, maximum);
    }
  }
  return "";
}

std::string broken_positions(const Problem& p) {
  if (p.rotary == 0) {
    return p.positions == PositionIds::kArange ? "" : "positions are for rotary alone";
  }
  if (!(p.rotary >= 1 && p.rotary < 1e30)) {
    return fmt::format("rotary={} must be at least 1, or 0 for none", p.rotary);
  }
  if (p.dim % 2 != 0) {
    return fmt::format("dim={} must be even: rotary turns pairs of elements", p.dim);
  }
  if (p.positions == PositionIds::kDocuments && !has_documents(p)) {
    return fmt::format("positions=documents, but mask={} has no documents", p.mask.text());
  }
  return "";
}

std::string broken_rule(const Problem& p) {
  for (const std::string& rule :
       {broken_number("batch", p.batch, 0), broken_number("q", p.q, 0),
        broken_number("kv", p.kv, 0), broken_number("heads", p.heads, 1),
        broken_number("kv_heads", p.kv_heads, 1), broken_number("dim", p.dim, 1),
        broken_number("dim_v", p.dim_v, 1)}) {
    if (!rule.empty()) return rule;
  }
  if (p.heads % p.kv_heads != 0) {
    return fmt::format("heads={}/{}: the key/value heads must divide the query heads", p.heads,
                       p.kv_heads);
  }
  if (!(p.scale >= 0 && p.scale < 1e30)) {
    return fmt::format("scale={} must be positive, or 0 for 1/sqrt(dim)", p.scale);
  }
  if (!(p.softcap >= 0 && p.softcap < 1e30)) {
    return fmt::format("softcap={} must be positive, or 0 for none", p.softcap);
  }
  if (!(p.dropout >= 0 && p.dropout < 1)) {
    return fmt::format("dropout={} must lie between 0 and 1, or be 0 for none", p.dropout);
  }
  for (const std::string& rule : {broken_mask(p), broken_positions(p)}) {
    if (!rule.empty()) return rule;
  }
  return broken_edit(p, tensors(p));
}

template <class T>
struct Inputs {
  std::vector<T> q, k, v, bias, sink, dout, dlse;

  explicit Inputs(const Problem& problem) {
    for (const TensorSpec& spec : tensors(problem)) {
      std::vector<T>* target = find(spec.name);
      if (target == nullptr) continue;
      const std::vector<double> drawn = whole_tensor(problem, spec);
      target->assign(drawn.begin(), drawn.end());
    }
  }

  AttentionInputs<T> view() const { return {q, k, v, bias, dout, dlse, sink}; }

 private:
  std::vector<T>* find(std::string_view name) {
    if (name == "q") return &q;
    if (name == "k") return &k;
    if (name == "v") return &v;
    if (name == "bias") return &bias;
    if (name == "sink") return &sink;
    if (name == "dout") return &dout;
    return name == "dlse" ? &dlse : nullptr;
  }
};

// The RMS test needs many elements of generic, zero-mean data (numerics 5.3).
bool may_test_rms(const Problem& p, const TensorSpec& spec) {
  const Index width = spec.shape.rank() == 4 ? spec.shape[3] : 1;
  return p.data == DataRecipe::kNormal && spec.token_dimension == 1 && width >= 32 &&
         spec.shape[1] >= 32 && spec.shape.elements() >= 1024;
}

template <class T>
ExpectedTensor expected_tensor(const Problem& problem, const TensorSpec& spec,
                               const std::vector<T>& want, const std::vector<Bound>& bounds,
                               const Precision& precision, Effort effort) {
  ExpectedTensor result;
  result.spec = spec;
  result.want.assign(want.begin(), want.end());
  if (effort == Effort::kValues) return result;
  const bool is_lse = spec.name == "lse";
  const OutputType type(is_lse ? precision.lse : precision.io, precision);
  result.rms_applies = may_test_rms(problem, spec);
  for (auto* thresholds : {&result.worst, &result.likely, &result.sigma}) {
    thresholds->resize(want.size());
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    // Dead rows and keys have no error at all.
    if (bounds[i].worst == 0) continue;
    const Thresholds thresholds = finish(bounds[i], result.want[i], type);
    result.worst[i] = effort == Effort::kAll ? thresholds.worst : kUnbounded;
    result.likely[i] = thresholds.likely;
    result.sigma[i] = thresholds.sigma;
    // Where one-sided errors dominate, sigma says nothing.
    if (!(bounds[i].linear <= 4 * kLambda * thresholds.sigma)) result.rms_applies = false;
  }
  return result;
}

template <class T>
Expected expected(const Problem& problem, const AttentionValues<T>& values,
                  const AttentionBounds& bounds, const Precision& precision, Effort effort) {
  Expected result;
  for (const TensorSpec& spec : tensors(problem)) {
    const auto add = [&](const std::vector<T>& want, const std::vector<Bound>& bound) {
      result.tensors.push_back(expected_tensor(problem, spec, want, bound, precision, effort));
    };
    if (spec.name == "out") add(values.out, bounds.out);
    if (spec.name == "lse") add(values.lse, bounds.lse);
    if (spec.name == "dq") add(values.dq, bounds.dq);
    if (spec.name == "dk") add(values.dk, bounds.dk);
    if (spec.name == "dv") add(values.dv, bounds.dv);
    if (spec.name == "dbias") add(values.dbias, bounds.dbias);
    if (spec.name == "dsink") add(values.dsink, bounds.dsink);
  }
  return result;
}

Expected evaluate(const Problem& problem, const Contract& contract, Effort effort) {
  const Precision& precision = contract.precision;
  const bool wide = problem.dtype == DType::kF64;
  AttentionResult result;
  if (!wide || effort != Effort::kValues) {
    const Inputs<double> inputs(problem);
    if (effort == Effort::kValues) {
      result.values = attention_values(problem, inputs.view());
    } else {
      result = attention_bounds(problem, inputs.view(), {}, contract, effort == Effort::kAll);
    }
  }
  if (!wide) return expected(problem, result.values, result.bounds, precision, effort);
  const Inputs<long double> inputs(problem);
  return expected(problem, attention_values(problem, inputs.view()), result.bounds, precision,
                  effort);
}

// Two products forward and five backward (the scores are computed again).
double work(const Problem& p) {
  const double pairs = static_cast<double>(p.batch * p.heads) * static_cast<double>(p.q * p.kv);
  return pairs * static_cast<double>(4 * p.dim + 3 * p.dim_v);
}

}  // namespace

const Operator& attention_operator() {
  static const Operator op{
      .name = "attention",
      .summary =
          "softmax attention with grouped heads, masks, bias, sinks, softcap, dropout, rotary",
      .keys = kKeys,
      .tensors = tensors,
      .repair = repair,
      .broken_rule = broken_rule,
      .evaluate = evaluate,
      .work = work,
      .hypotheses = attention_hypotheses()};
  return op;
}

}  // namespace shardproof
