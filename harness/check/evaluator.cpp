#include "harness/check/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/check/diagnose.h"
#include "harness/model/element.h"
#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {

CaseEvaluator::CaseEvaluator(const Tables& tables, std::vector<const Property*> properties,
                             const Generator* generator, FailureStore* store)
    : tables_(tables),
      vocabulary_(tables.vocabulary()),
      properties_(std::move(properties)),
      generator_(generator),
      store_(store) {}

void CaseEvaluator::start(const WorkerLimits& limits) {
  judge_ = std::make_unique<Judge>(tables_, limits.case_seconds);
}

double CaseEvaluator::prepare(const Item& item) {
  prepared_ =
      item.text.empty() ? generator_->draw(item.number) : parse_case(item.text, vocabulary_);
  // Messages among ranks cost time, too, and grow with their square.
  const double ranks = prepared_->placement.mesh.ranks();
  return prepared_->problem.op->work(prepared_->problem) + 1e3 * ranks * ranks;
}

// A generated case's turn among the properties with variants is drawn by its number.
std::vector<const Property*> CaseEvaluator::chosen(const Item& item) const {
  if (!item.property.empty()) return {tables_.property(item.property)};
  if (!item.text.empty()) return properties_;
  const auto has_variants = [](const Property* each) {
    return each->variants != nullptr && each->hunted_in.empty();
  };
  const auto count =
      static_cast<std::size_t>(std::count_if(properties_.begin(), properties_.end(), has_variants));
  const std::size_t first = count > 0 ? mix(item.number) % count : 0;
  std::vector<const Property*> result;
  std::size_t turn = 0;
  for (const Property* property : properties_) {
    if (has_variants(property)) {
      const std::size_t place = (turn++ + count - first) % count;
      if (place >= kFurtherProperties) continue;
    }
    result.push_back(property);
  }
  return result;
}

// The known faults of which a case's report is like the failure; a mutant is like itself.
std::vector<std::string> CaseEvaluator::likenesses(
    Case value, const Property* property, const std::function<bool(const CaseReport&)>& is_like) {
  std::vector<std::string> result;
  for (const Subject* mutant : tables_.subjects) {
    if (mutant->fault == nullptr || mutant->op != value.problem.op->name) continue;
    value.placement.subject = mutant->name;
    const RunOptions lean{.keep_trace = false, .looks_at_signals = false};
    if (!is_like(judge_->judge(value, {&property, 1}, lean))) continue;
    result.push_back(fmt::format("as in {}: {}", mutant->name, mutant->fault->says));
  }
  return result;
}

// The base run is described where its values are wrong, else the first further run of which that
// is true. Where all values are right, or nobody has them so, the known faults are compared by what
// the property says of them.
std::vector<std::string> CaseEvaluator::diagnosis(const CaseReport& report) {
  const Judgement* failure = report.first_failure();
  if (failure == nullptr) return {};
  std::vector<const Run*> runs{report.base.get()};
  for (const auto& variant : report.variants) runs.push_back(variant.get());
  std::vector<std::string> result, likes;
  for (const Run* run : runs) {
    result = diagnose(*run);
    if (result.empty()) continue;
    if (run != runs.front()) result.insert(result.begin(), "in " + to_text(run->value));
    const auto alone = std::find_if(tables_.properties.begin(), tables_.properties.end(),
                                    [](const Property* each) { return each->variants == nullptr; });
    if (alone == tables_.properties.end()) break;
    likes = likenesses(run->value, *alone, [&](const CaseReport& other) {
      return other.base != nullptr && is_alike(*run, *other.base);
    });
    break;
  }
  if (likes.empty()) {
    likes = likenesses(report.value, failure->property, [&](const CaseReport& other) {
      const Judgement* same = other.first_failure();
      return same != nullptr && is_alike(*failure, *same);
    });
  }
  result.insert(result.end(), likes.begin(), likes.end());
  return result;
}

CaseResult CaseEvaluator::evaluate(const Item& item) {
  const std::vector<const Property*> properties = chosen(item);
  const bool stores = store_ != nullptr && !item.golden_path.empty();
  const CaseReport report =
      judge_->judge(*prepared_, properties, {.keep_shards = stores, .keep_trace = stores});
  CaseResult result = summarize(report, tables_, item.all_numbers);
  if (item.all_numbers) result.diagnosis = diagnosis(report);
  if (const Judgement* failure = report.first_failure(); failure && stores) {
    try {
      store_->store(report, *failure, item.golden_path);
      result.has_golden = true;
    } catch (const Error& error) {
      result.unstored = error.what();
    }
  }
  return result;
}

}  // namespace shardproof
