#include "harness/check/campaign.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/check/interrupt.h"
#include "harness/check/investigate.h"
#include "harness/check/worker_process.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Results of workers in the order of their numbers.
class Ordered {
 public:
  void add(Finished finished) { waiting_.emplace(finished.item.number, std::move(finished)); }

  // The first there is, if its number is at most `last`.
  std::optional<Finished> next(std::uint64_t last) {
    if (waiting_.empty() || waiting_.begin()->first > last) return std::nullopt;
    std::optional<Finished> result(std::move(waiting_.begin()->second));
    waiting_.erase(waiting_.begin());
    return result;
  }

 private:
  std::map<std::uint64_t, Finished> waiting_;
};

class Search {
 public:
  Search(const Tables& tables, const Domain& domain, const CampaignOptions& options,
         const std::vector<Sink*>& sinks)
      : tables_(tables),
        options_(options),
        sinks_(sinks),
        generator_(domain, campaign_seed(options.seed)),
        evaluator_(tables, domain.properties, &generator_, options.store),
        investigator_(tables, evaluator_,
                      {options.limits, options.shrink_seconds, options.goldens, options.store},
                      interrupt_),
        tally_(options.resumed ? *options.resumed : Tally(domain, tables)) {
    tally_.seed = options.seed;
    tally_.part = options.part.count > 1 ? options.part.text() : "";
    tally_.jobs = options.jobs;
    tally_.interrupted = false;
  }

  Tally run() {
    start_ns_ = now_ns() - static_cast<std::int64_t>(1e9 * tally_.seconds);
    Workers workers(evaluator_, options_.jobs, options_.limits);
    const std::uint64_t stored = options_.part.share(options_.stored.size());
    const std::uint64_t generated = tally_.cases() - tally_.stored;
    run_items(
        workers, tally_.stored, stored,
        [&](std::uint64_t number) {
          return Item{.number = number, .text = options_.stored[number].text};
        },
        &options_.stored);
    const bool endless = !options_.cases && options_.seconds;
    const std::uint64_t cases = endless ? ~std::uint64_t{0} : options_.cases.value_or(0);
    run_items(
        workers, generated, options_.part.share(cases),
        [](std::uint64_t number) { return Item{.number = number}; }, nullptr);
    tally_.seconds = elapsed();
    for (Sink* sink : sinks_) sink->on_end(tally_);
    return std::move(tally_);
  }

 private:
  double elapsed() const { return 1e-9 * static_cast<double>(now_ns() - start_ns_); }

  // For the first reason that comes.
  bool is_over() {
    if (over_) return true;
    tally_.interrupted = interrupt_.came();
    over_ = tally_.interrupted || (options_.seconds && elapsed() >= *options_.seconds);
    return over_;
  }

  // Judges the part's items taken..count-1, or as many as there is time for.
  template <class MakeItem>
  void run_items(Workers& workers, std::uint64_t taken, std::uint64_t count, MakeItem make,
                 const std::vector<StoredCase>* stored) {
    const Part& part = options_.part;
    Ordered ordered;
    std::uint64_t given = taken;
    while (!is_over() && taken < count) {
      while (given < count && workers.shortest_queue() < chunk_) {
        std::vector<Item> items;
        for (; given < count && items.size() < chunk_; ++given) {
          items.push_back(make(part.nth(given)));
        }
        workers.give(std::move(items));
      }
      for (Finished& finished : workers.wait(0.25, interrupt_.descriptor())) {
        learn(finished.seconds);
        ordered.add(std::move(finished));
      }
      while (!over_) {
        const std::optional<Finished> finished = ordered.next(part.nth(taken));
        if (!finished) break;
        ++taken;
        take(*finished, stored);
      }
      tally_.seconds = elapsed();
      for (Sink* sink : sinks_) sink->on_progress(tally_);
    }
    // Time is over: what lies behind a case that is still running counts, too. Not so what can be
    // judged again when an interrupted campaign is resumed.
    while (!enough_ && !tally_.interrupted) {
      const std::optional<Finished> finished = ordered.next(~std::uint64_t{0});
      if (!finished) break;
      take(*finished, stored);
    }
  }

  // Chunks take about a twentieth of a second: long enough to be cheap, short enough to share out.
  void learn(double seconds) {
    constexpr double kChunkSeconds = 0.05;
    constexpr double kMostCases = 64;
    average_seconds_ += 0.05 * (seconds - average_seconds_);
    chunk_ = static_cast<std::size_t>(
        std::clamp(kChunkSeconds / std::max(average_seconds_, 1e-6), 1.0, kMostCases));
  }

  void take(const Finished& finished, const std::vector<StoredCase>* stored) {
    if (!finished.result.trouble.empty()) throw Error(finished.result.trouble);
    const std::uint64_t number = finished.item.number;
    const Case value =
        stored ? parse_case(finished.item.text, tables_.vocabulary()) : generator_.draw(number);
    const Judged judged{number, stored ? (*stored)[number].origin : "", value, finished.result};
    tally_.add(judged);
    for (Sink* sink : sinks_) sink->on_case(judged, tally_);
    if (judged.result.first_failure()) note_failure(judged);
    if (options_.is_enough && options_.is_enough(judged)) over_ = enough_ = true;
  }

  void note_failure(const Judged& judged) {
    const std::string signature =
        failure_signature(judged.result, judged.value.placement.subject, tables_);
    const auto known =
        std::find_if(tally_.failures.begin(), tally_.failures.end(),
                     [&](const Failure& failure) { return failure.signature == signature; });
    if (known != tally_.failures.end()) {
      ++known->times;
    } else if (tally_.failures.size() >= options_.most_failures) {
      ++tally_.failures_left_out;
    } else {
      tally_.failures.push_back(investigator_.investigate(judged));
      tally_.seconds = elapsed();
      for (Sink* sink : sinks_) sink->on_failure(tally_.failures.back(), tally_);
    }
  }

  const Tables& tables_;
  const CampaignOptions& options_;
  const std::vector<Sink*>& sinks_;
  Interrupt interrupt_;
  Generator generator_;
  CaseEvaluator evaluator_;
  Investigator investigator_;
  Tally tally_;
  std::int64_t start_ns_ = 0;
  double average_seconds_ = 0.01;
  std::size_t chunk_ = 4;
  bool over_ = false;
  bool enough_ = false;
};

}  // namespace

Tally run_campaign(const Tables& tables, const Domain& domain, const CampaignOptions& options,
                   const std::vector<Sink*>& sinks) {
  return Search(tables, domain, options, sinks).run();
}

}  // namespace shardproof
