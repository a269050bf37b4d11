// What a person needs to know about a stored failure, as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "golden/error_map.h"
#include "golden/golden.h"
#include "golden/golden_format.h"
#include "golden/ring_steps.h"
#include "harness/check/diagnose.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::size_t kLabelWidth = 11;

// "label      text", further lines of the text indented.
std::string field(std::string_view label, std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string indented;
  for (char c : text) {
    indented += c;
    if (c == '\n') indented.append(kLabelWidth, ' ');
  }
  return fmt::format("{:<{}}{}\n", label, kLabelWidth, indented);
}

const GoldenTensor* find(const std::vector<GoldenTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &GoldenTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

// A case of another build may use names that this one does not know: the tensors are shown anyway.
std::optional<Case> parsed(const Golden& golden, const Vocabulary& vocabulary, std::string& note) {
  try {
    return parse_case(golden.case_text, vocabulary);
  } catch (const Error& error) {
    note = error.what();
    return std::nullopt;
  }
}

int token_dimension(const std::optional<Case>& value, const GoldenTensor& tensor) {
  if (!value) return -1;
  for (const TensorSpec& spec : value->problem.op->tensors(value->problem)) {
    if (spec.name == tensor.name && spec.shape == tensor.shape) return spec.token_dimension;
  }
  return -1;
}

std::string holders(const Golden& golden, const GoldenTensor& tensor, Index element) {
  const auto at = tensor.shape.coordinates(element);
  std::vector<int> ranks;
  for (const KeptShard& shard : golden.shards) {
    bool holds = shard.tensor == tensor.name &&
                 shard.shard.size() == static_cast<std::size_t>(tensor.shape.rank());
    for (std::size_t d = 0; holds && d < shard.shard.size(); ++d) {
      holds = std::ranges::find(shard.shard[d], at[d]) != shard.shard[d].end();
    }
    if (holds) ranks.push_back(shard.rank);
  }
  return ranks.empty() ? "" : fmt::format(", held by rank {}", fmt::join(ranks, ", "));
}

std::vector<double> ratios(const Golden& golden, const GoldenTensor& got) {
  const GoldenTensor* want = find(golden.want, got.name);
  const GoldenTensor* bound = find(golden.bound, got.name);
  std::vector<double> result;
  if (want == nullptr || bound == nullptr || !(want->shape == got.shape) ||
      !(bound->shape == got.shape)) {
    return result;
  }
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    result.push_back(error_ratio(got.values[i], want->values[i], bound->values[i]));
  }
  return result;
}

std::string element_text(const Golden& golden, const std::optional<Case>& value,
                         const GoldenTensor& tensor) {
  const Verdict& verdict = golden.verdict;
  const int token = token_dimension(value, tensor);
  const auto at = tensor.shape.coordinates(verdict.element);
  const auto names = dimension_names(tensor.name, tensor.shape.rank(), token);
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < names.size(); ++d) {
    parts.push_back(fmt::format("{} {}", names[d], at[d]));
  }
  std::string text = field("element", fmt::format("{}{}", fmt::join(parts, ", "),
                                                  holders(golden, tensor, verdict.element)));
  if (value && token >= 0) {
    const Index batch = names[0] == "batch" ? at[0] : 0;
    const std::string ring =
        ring_steps(*value, golden.trace, tensor.name, batch, at[static_cast<std::size_t>(token)]);
    if (!ring.empty()) text += field("ring", ring);
  }
  return text;
}

std::string numbers_text(const Verdict& verdict) {
  return field("got", fmt::format("{:.17g}", verdict.got)) +
         field("want", fmt::format("{:.17g}", verdict.want)) +
         field("bound", fmt::format("{:.6g}", verdict.bound)) +
         field("ratio", fmt::format("{:.6g} (error {:.6g})",
                                    error_ratio(verdict.got, verdict.want, verdict.bound),
                                    std::fabs(verdict.got - verdict.want)));
}

// One map for every other dimension that has more than one index, against tokens or the first.
std::string maps_text(const GoldenTensor& tensor, int token, const std::vector<double>& errors) {
  if (errors.empty() || tensor.shape.rank() == 0) return "";
  const auto names = dimension_names(tensor.name, tensor.shape.rank(), token);
  const int row = std::max(token, 0);
  std::string text;
  const auto add = [&](int column) {
    text += error_map(tensor.shape, errors, row, column, names[static_cast<std::size_t>(row)],
                      column == row ? "itself" : names[static_cast<std::size_t>(column)]);
  };
  for (int column = 0; column < tensor.shape.rank(); ++column) {
    if (column != row && tensor.shape[column] > 1) add(column);
  }
  if (text.empty()) add(row);
  return fmt::format("errors of {} against the reference ({})\n{}", tensor.name, error_map_legend(),
                     text);
}

std::string tensors_text(const Golden& golden) {
  std::string text;
  for (const GoldenTensor& tensor : golden.got) {
    const std::vector<double> errors = ratios(golden, tensor);
    const auto over = std::ranges::count_if(errors, [](double ratio) { return !(ratio <= 1); });
    double worst = 0;
    for (double ratio : errors) worst = std::isnan(ratio) || ratio > worst ? ratio : worst;
    text += fmt::format("{:<8} {:<5} {:<20} worst error/bound {:.4g}, {} of {} over\n", tensor.name,
                        format(tensor.dtype).name, tensor.shape.text(), worst, over, errors.size());
  }
  return text.empty() ? "" : field("tensors", text);
}

std::string trace_text(const Trace& trace) {
  struct Sum {
    std::size_t calls = 0;
    Index bytes = 0;
  };
  std::map<std::tuple<Phase, std::string_view, std::string>, Sum> sums;
  double end = 0;
  for (const Event& event : trace) {
    Sum& sum = sums[{event.phase, event.operation, event.axis}];
    ++sum.calls;
    sum.bytes += event.bytes;
    end = std::max(end, event.end);
  }
  std::string text =
      fmt::format("{} events, all done after {:.4g} virtual seconds\n", trace.size(), end);
  for (const auto& [key, sum] : sums) {
    const auto& [phase, operation, axis] = key;
    text += fmt::format("{:<8} {:<14} {:<3} {} calls, {} bytes\n", golden_format::phase_name(phase),
                        operation, axis, sum.calls, sum.bytes);
  }
  return field("trace", text);
}

std::string pairs_text(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text += fmt::format("{}={}\n", key, value);
  return text;
}

}  // namespace

std::string show(const Golden& golden, const Vocabulary& vocabulary) {
  std::string note;
  const std::optional<Case> value = parsed(golden, vocabulary, note);
  const Verdict& verdict = golden.verdict;
  std::string text = field("case", golden.case_text);
  if (!note.empty()) text += field("note", "this program cannot run it: " + note);
  text += field("property", golden.property);
  text += field("verdict", fmt::format("{}{}{}", name(verdict.kind),
                                       verdict.symptom.empty() ? "" : ": ", verdict.symptom));
  if (!verdict.message.empty()) text += field("message", verdict.message);
  const GoldenTensor* tensor = find(golden.got, verdict.tensor);
  if (!verdict.tensor.empty()) text += field("tensor", verdict.tensor);
  if (verdict.element >= 0) {
    if (tensor != nullptr && verdict.element < tensor->shape.elements()) {
      text += element_text(golden, value, *tensor);
    }
    text += numbers_text(verdict);
  }
  text += tensors_text(golden);
  if (tensor != nullptr) {
    text += maps_text(*tensor, token_dimension(value, *tensor), ratios(golden, *tensor));
  }
  text += trace_text(golden.trace);
  if (!golden.contract.empty()) text += field("contract", golden.contract);
  if (!golden.environment.empty()) text += field("made by", pairs_text(golden.environment));
  text += field("again", fmt::format("shardproof check '{}'", golden.case_text));
  return text;
}

}  // namespace shardproof
