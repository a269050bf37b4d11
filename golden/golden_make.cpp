// From a failing report to the golden that keeps it.
#include <fmt/format.h>

#include <algorithm>

#include "golden/golden.h"
#include "golden/golden_format.h"
#include "harness/model/element.h"
#include "harness/model/operator.h"

namespace shardproof {
namespace {

std::string contract_text(const Contract& contract) {
  const Precision& p = contract.precision;
  std::string text;
  const auto line = [&](std::string_view key, const auto& value) {
    text += fmt::format("{}={}\n", key, value);
  };
  const auto dtype = [&](std::string_view key, DType value) { line(key, format(value).name); };
  dtype("io", p.io);
  dtype("accumulator", p.accumulator);
  line("truncating", p.truncating);
  dtype("elementwise", p.elementwise);
  dtype("score", p.score);
  dtype("probability", p.probability);
  dtype("score_gradient", p.score_gradient);
  dtype("saved_out", p.saved_out);
  dtype("lse", p.lse);
  dtype("block_out", p.block_out);
  dtype("query_gradient", p.query_gradient);
  dtype("kv_gradient", p.kv_gradient);
  dtype("operand", p.operand);
  dtype("middle", p.middle);
  dtype("reduction", p.reduction);
  line("merge_blocks", p.merge_blocks);
  line("rescales", p.rescales);
  line("ulp_exp", p.ulp_exp);
  line("ulp_log", p.ulp_log);
  line("ulp_tanh", p.ulp_tanh);
  line("ulp_erf", p.ulp_erf);
  line("query_blocks", contract.partitions.queries.size());
  line("key_blocks", contract.partitions.keys.size());
  line("summed_parts", contract.partitions.summed.size());
  line("bitwise_across_schedules", contract.bitwise_across_schedules);
  line("bitwise_repeatable", contract.bitwise_repeatable);
  line("hidden_may_be_nan", contract.hidden_may_be_nan);
  return text;
}

GoldenTensor golden_tensor(const TensorSpec& spec, DType dtype, std::vector<double> values) {
  return {std::string(spec.name), dtype, spec.shape, std::move(values)};
}

void add_run(Golden& golden, const Run& run) {
  golden.contract = contract_text(run.contract);
  golden.trace = run.outcome.trace;
  for (const Gathered& tensor : run.outcome.tensors) {
    golden.got.push_back(golden_tensor(tensor.spec, tensor.spec.dtype, tensor.got));
  }
  std::ranges::copy_if(
      run.outcome.shards, std::back_inserter(golden.shards),
      [&](const KeptShard& shard) { return shard.tensor == golden.verdict.tensor; });
  for (const ExpectedTensor& tensor : run.expected(Effort::kLikely).tensors) {
    golden.want.push_back(golden_tensor(tensor.spec, DType::kF64, tensor.want));
    golden.bound.push_back(golden_tensor(tensor.spec, DType::kF64, tensor.likely));
  }
}

// A failure too large to keep whole keeps the tensor it is about, and if that is too large the
// text: everything else follows from the case.
void shrink_to_limit(Golden& golden) {
  if (golden_format::total_elements(golden) <= golden_format::kMaximumElements) return;
  golden.inputs.clear();
  golden.trace.clear();
  for (auto* tensors : {&golden.got, &golden.want, &golden.bound}) {
    std::erase_if(*tensors,
                  [&](const GoldenTensor& tensor) { return tensor.name != golden.verdict.tensor; });
  }
  if (golden_format::total_elements(golden) <= golden_format::kMaximumElements) return;
  for (auto* tensors : {&golden.got, &golden.want, &golden.bound}) tensors->clear();
  golden.shards.clear();
}

// HDF5 pads text with NUL, and a message may quote anything.
std::string without_nul(std::string text) {
  std::ranges::replace(text, '\0', '?');
  return text;
}

}  // namespace

Golden make_golden(const CaseReport& report, const Judgement& failure,
                   std::map<std::string, std::string> environment) {
  Golden golden;
  golden.case_text = to_text(report.value);
  golden.property = failure.property != nullptr ? failure.property->name : "survives";
  golden.verdict = failure.verdict;
  golden.verdict.message = without_nul(failure.verdict.message);
  golden.environment = std::move(environment);
  const Problem& problem = report.value.problem;
  for (const TensorSpec& spec : problem.op->tensors(problem)) {
    if (spec.kind != TensorKind::kInput && spec.kind != TensorKind::kUpstream) continue;
    golden.inputs.push_back(golden_tensor(spec, spec.dtype, whole_tensor(problem, spec)));
  }
  if (report.base != nullptr) add_run(golden, *report.base);
  shrink_to_limit(golden);
  return golden;
}

}  // namespace shardproof
