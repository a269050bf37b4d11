#include "harness/check/investigate.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/check/explain.h"
#include "harness/check/shrink.h"
#include "harness/check/worker_process.h"
#include "harness/model/element.h"
#include "harness/model/require.h"

namespace shardproof {

std::string golden_name(std::string_view subject, std::string_view property,
                        std::string_view signature) {
  std::uint64_t hash = 0;
  for (char letter : signature) hash = mix(hash + static_cast<unsigned char>(letter));
  return fmt::format("{}-{}-{:08x}.h5", subject, property, hash >> 32);
}

std::string failure_signature(const CaseResult& result, std::string_view subject,
                              const Tables& tables) {
  const PropertyResult* failed = result.first_failure();
  if (!failed) return "";
  return signature(subject, property_name(failed->property, tables), failed->verdict);
}

Investigator::Investigator(const Tables& tables, Evaluator& evaluator, InvestigatorOptions options,
                           Interrupt& interrupt)
    : tables_(tables), evaluator_(evaluator), options_(std::move(options)), interrupt_(interrupt) {}

Failure Investigator::investigate(const Judged& judged) {
  const PropertyResult& failed = *judged.result.first_failure();
  const bool ran = failed.property != PropertyResult::kRun;
  Failure failure;
  failure.subject = judged.value.placement.subject;
  failure.property = property_name(failed.property, tables_);
  failure.signature = failure_signature(judged.result, failure.subject, tables_);
  failure.verdict = failed.verdict;
  failure.number = judged.number;
  failure.origin = judged.origin;
  failure.found = failure.shrunk = to_text(judged.value);

  // Ranks that are processes take long to start, and so do interpreters that plugins bring.
  const auto& plugged = tables_.plugged;
  const Subject& subject = *tables_.subject(failure.subject);
  starts_fast_ = judged.value.placement.world == tables_.worlds.front().name &&
                 std::find(plugged.begin(), plugged.end(), &subject) == plugged.end();
  limits_ = options_.limits;
  if (failed.verdict.kind == VerdictKind::kTimedOut) limits_.case_seconds /= 5;
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(1e9 * options_.shrink_seconds);
  const auto out_of_time = [&] { return now_ns() > deadline || interrupt_.came(); };
  const std::string property = ran ? failure.property : "";
  const auto still_fails = [&](const Case& value) {
    if (out_of_time()) return false;
    const CaseResult result = evaluate({.text = to_text(value), .property = property});
    return failure_signature(result, failure.subject, tables_) == failure.signature;
  };
  failure.is_repeatable = still_fails(judged.value);
  if (failure.is_repeatable) {
    failure.diagnosis =
        evaluate({.text = failure.found, .property = property, .all_numbers = true}).diagnosis;
    const Shrunk shrunk = shrink(judged.value, subject, tables_.vocabulary(), still_fails);
    failure.evaluations = shrunk.evaluations;
    failure.is_minimal = shrunk.is_minimal && !out_of_time();
    failure.shrunk = to_text(shrunk.value);
    // A case that runs into its time limit costs too much to vary.
    const bool is_quick = failed.verdict.kind != VerdictKind::kTimedOut;
    if (is_quick) {
      failure.explanation = explain(shrunk.value, subject, tables_.vocabulary(), still_fails);
    }
  }
  keep(judged, failed, failure);
  workers_.reset();
  return failure;
}

// Judges the shrunk case once more, for its message, and stores the golden.
void Investigator::keep(const Judged& judged, const PropertyResult& failed, Failure& failure) {
  Item item{.text = failure.shrunk};
  if (failed.property != PropertyResult::kRun) item.property = failure.property;
  std::filesystem::path path;
  if (!options_.goldens.empty()) {
    path = options_.goldens / golden_name(failure.subject, failure.property, failure.signature);
    item.golden_path = path.string();
  }
  const CaseResult result = evaluate(item);
  if (!result.trouble.empty()) throw Error(result.trouble);
  if (const PropertyResult* again = result.first_failure()) failure.verdict = again->verdict;
  if (path.empty()) return;
  if (!result.unstored.empty()) {
    failure.unstored = result.unstored;
    return;
  }
  try {
    if (!result.has_golden) store_lost(judged, failure, path);
  } catch (const Error& error) {
    failure.unstored = error.what();
    return;
  }
  failure.golden = path.string();
}

void Investigator::store_lost(const Judged& judged, const Failure& failure,
                              const std::filesystem::path& path) {
  const bool shrunk = failure.shrunk != failure.found;
  options_.store->store_lost(
      shrunk ? parse_case(failure.shrunk, tables_.vocabulary()) : judged.value, failure.property,
      failure.verdict, path);
}

// Each in a process of its own, so that nothing hangs on what ran before, unless that takes long.
CaseResult Investigator::evaluate(Item item) {
  if (!workers_ || starts_fast_) workers_ = std::make_unique<Workers>(evaluator_, 1, limits_);
  workers_->give({std::move(item)});
  for (;;) {
    std::vector<Finished> finished = workers_->wait(1);
    if (!finished.empty()) return std::move(finished.front().result);
  }
}

}  // namespace shardproof
