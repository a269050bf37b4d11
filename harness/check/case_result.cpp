#include "harness/check/case_result.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/check/ladder.h"
#include "harness/check/pool.h"
#include "harness/run/pack.h"

namespace shardproof {
namespace {

// The largest |got - want|; equal infinities and NaN against NaN are no error.
double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double error = std::abs(got[i] - want[i]);
    largest =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
  }
  return largest;
}

bool judged_by_reference(const CaseReport& report) {
  return std::any_of(report.judgements.begin(), report.judgements.end(),
                     [](const Judgement& judgement) {
                       const VerdictKind kind = judgement.verdict.kind;
                       return judgement.property->family == Family::kOracle &&
                              (kind == VerdictKind::kHolds || kind == VerdictKind::kFalsified);
                     });
}

void pack_verdict(Pack& pack, const Verdict& verdict) {
  pack.whole(static_cast<int>(verdict.kind)).text(verdict.message);
  pack.text(verdict.tensor).text(verdict.symptom).whole(verdict.element);
  pack.real(verdict.got).real(verdict.want).real(verdict.bound);
}

VerdictKind unpack_kind(Unpack& unpack) {
  const std::int64_t kind = unpack.whole();
  if (kind < 0 || kind >= kVerdictKinds) throw Error("a worker sent an unknown verdict");
  return static_cast<VerdictKind>(kind);
}

Verdict unpack_verdict(Unpack& unpack) {
  Verdict verdict;
  verdict.kind = unpack_kind(unpack);
  verdict.message = unpack.text();
  verdict.tensor = unpack.text();
  verdict.symptom = unpack.text();
  verdict.element = unpack.whole();
  verdict.got = unpack.real();
  verdict.want = unpack.real();
  verdict.bound = unpack.real();
  return verdict;
}

}  // namespace

const PropertyResult* CaseResult::first_failure() const {
  const auto found = std::find_if(properties.begin(), properties.end(), [](const auto& result) {
    return is_failure(result.verdict.kind);
  });
  return found == properties.end() ? nullptr : &*found;
}

std::string CaseResult::packed() const {
  Pack pack;
  pack.whole(static_cast<int>(overall)).text(refusal).text(trouble).whole(has_golden);
  pack.text(unstored);
  pack.whole(static_cast<std::int64_t>(properties.size()));
  for (const PropertyResult& result : properties) {
    pack.whole(result.property);
    pack_verdict(pack, result.verdict);
  }
  pack.whole(static_cast<std::int64_t>(tensors.size()));
  for (const TensorNumbers& numbers : tensors) {
    pack.text(numbers.tensor).real(numbers.error).real(numbers.worst);
    pack.real(numbers.likely).real(numbers.rms).real(numbers.limit);
    pack.real(numbers.baseline_limit).real(numbers.mean_square);
    pack.whole(static_cast<int>(numbers.sharpness));
  }
  pack.whole(static_cast<std::int64_t>(diagnosis.size()));
  for (const std::string& sentence : diagnosis) pack.text(sentence);
  pack.text(ladder);
  return pack.bytes();
}

CaseResult CaseResult::unpacked(std::string_view bytes) {
  Unpack unpack(bytes);
  CaseResult result;
  result.overall = unpack_kind(unpack);
  result.refusal = unpack.text();
  result.trouble = unpack.text();
  result.has_golden = unpack.whole() != 0;
  result.unstored = unpack.text();
  for (std::int64_t count = unpack.whole(); count > 0; --count) {
    const int property = static_cast<int>(unpack.whole());
    result.properties.push_back({property, unpack_verdict(unpack)});
  }
  for (std::int64_t count = unpack.whole(); count > 0; --count) {
    TensorNumbers numbers;
    numbers.tensor = unpack.text();
    numbers.error = unpack.real();
    numbers.worst = unpack.real();
    numbers.likely = unpack.real();
    numbers.rms = unpack.real();
    numbers.limit = unpack.real();
    numbers.baseline_limit = unpack.real();
    numbers.mean_square = unpack.real();
    numbers.sharpness = static_cast<Sharpness>(unpack.whole());
    result.tensors.push_back(std::move(numbers));
  }
  for (std::int64_t count = unpack.whole(); count > 0; --count) {
    result.diagnosis.push_back(unpack.text());
  }
  result.ladder = unpack.text();
  return result;
}

std::string_view property_name(int property, const Tables& tables) {
  if (property == PropertyResult::kRun) return "survives";
  return tables.properties.at(static_cast<std::size_t>(property))->name;
}

CaseResult lost(VerdictKind kind, std::string symptom, std::string message) {
  CaseResult result;
  result.overall = kind;
  Verdict verdict;
  verdict.kind = kind;
  verdict.symptom = std::move(symptom);
  verdict.message = std::move(message);
  result.properties.push_back({PropertyResult::kRun, std::move(verdict)});
  return result;
}

std::vector<TensorNumbers> tensor_numbers(const Run& run, bool all) {
  const Effort effort = all ? Effort::kAll : Effort::kLikely;
  std::vector<TensorNumbers> result;
  for (const Comparison& comparison : compare_all(run, effort)) {
    TensorNumbers numbers{.tensor = std::string(comparison.tensor),
                          .worst = comparison.worst_ratio,
                          .likely = comparison.likely_ratio,
                          .rms = comparison.rms};
    const Gathered* got = run.outcome.find(comparison.tensor);
    const ExpectedTensor* want = run.expected(effort).find(comparison.tensor);
    require(got != nullptr && want != nullptr, "what was compared is there");
    if (want->want.empty() && !all) continue;
    if (all) numbers.error = largest_error(got->got, want->want);
    if (got->got.size() == want->want.size() && !want->want.empty()) {
      numbers.limit = detection_limit(*want);
      numbers.baseline_limit = baseline_limit(*got, *want);
      numbers.mean_square = mean_square_error(*got, *want);
      numbers.sharpness = sharpness(*want, run.value.placement.mesh.ranks());
    }
    result.push_back(std::move(numbers));
  }
  return result;
}

CaseResult summarize(const CaseReport& report, const Tables& tables, bool all_numbers) {
  CaseResult result;
  result.overall = report.overall;
  result.refusal = report.refusal;
  for (const Judgement& judgement : report.judgements) {
    const auto found =
        std::find(tables.properties.begin(), tables.properties.end(), judgement.property);
    require(found != tables.properties.end(), "a judged property is in the table");
    result.properties.push_back(
        {static_cast<int>(found - tables.properties.begin()), judgement.verdict});
  }
  const bool completed = report.base && report.base->outcome.ending == Ending::kCompleted;
  if (completed && (all_numbers || judged_by_reference(report))) {
    result.tensors = tensor_numbers(*report.base, all_numbers);
  }
  if (completed && all_numbers) result.ladder = ladder(*report.base);
  return result;
}

}  // namespace shardproof
