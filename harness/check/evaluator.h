// CaseEvaluator: what the workers of a campaign do with an item: draw or parse its case, judge it
// and, when asked, store its failure.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "harness/check/generate.h"
#include "harness/check/workers.h"

namespace shardproof {

// Where failures are kept. Made by main: this folder does not know the format.
class FailureStore {
 public:
  virtual ~FailureStore() = default;

  // Called in a worker, with a base run that kept its shards.
  virtual void store(const CaseReport& report, const Judgement& failure,
                     const std::filesystem::path& path) = 0;

  // Called in the driver, for a case that takes its process down.
  virtual void store_lost(const Case& value, std::string_view property, const Verdict& verdict,
                          const std::filesystem::path& path) = 0;
};

class CaseEvaluator : public Evaluator {
 public:
  // `generator` and `store` may be null: then every item has a text, and none is stored.
  CaseEvaluator(const Tables& tables, std::vector<const Property*> properties,
                const Generator* generator, FailureStore* store);

  void start(const WorkerLimits& limits) override;
  double prepare(const Item& item) override;
  CaseResult evaluate(const Item& item) override;

  // Properties that need further runs take turns: each generated case is judged by at most this
  // many of them, so that a second goes into different cases. Cases given as text get all.
  static constexpr std::size_t kFurtherProperties = 3;

 private:
  std::vector<const Property*> chosen(const Item& item) const;
  std::vector<std::string> diagnosis(const CaseReport& report);
  std::vector<std::string> likenesses(Case value, const Property* property,
                                      const std::function<bool(const CaseReport&)>& is_like);

  const Tables& tables_;
  Vocabulary vocabulary_;
  std::vector<const Property*> properties_;
  const Generator* generator_;
  FailureStore* store_;
  std::unique_ptr<Judge> judge_;
  std::optional<Case> prepared_;
};

}  // namespace shardproof
