#include "harness/check/evaluator.h"

#include "harness/model/operator.h"

namespace shardproof {

CaseEvaluator::CaseEvaluator(const Tables& tables, std::vector<const Property*> properties,
                             const Generator* generator, FailureStore* store)
    : tables_(tables),
      vocabulary_(tables.vocabulary()),
      properties_(std::move(properties)),
      generator_(generator),
      store_(store) {}

void CaseEvaluator::start() { judge_ = std::make_unique<Judge>(tables_); }

double CaseEvaluator::prepare(const Item& item) {
  prepared_ =
      item.text.empty() ? generator_->draw(item.number) : parse_case(item.text, vocabulary_);
  // Messages among ranks cost time, too, and grow with their square.
  const double ranks = prepared_->placement.mesh.ranks();
  return prepared_->problem.op->work(prepared_->problem) + 1e3 * ranks * ranks;
}

CaseResult CaseEvaluator::evaluate(const Item& item) {
  std::vector<const Property*> properties = properties_;
  if (!item.property.empty()) properties = {tables_.property(item.property)};
  const bool stores = store_ != nullptr && !item.golden_path.empty();
  const CaseReport report = judge_->judge(*prepared_, properties, {.keep_shards = stores});
  CaseResult result = summarize(report, tables_, item.all_numbers);
  if (const Judgement* failure = report.first_failure(); failure && stores) {
    store_->store(report, *failure, item.golden_path);
    result.has_golden = true;
  }
  return result;
}

}  // namespace shardproof
