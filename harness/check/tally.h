// Tally: what a campaign knows so far, in memory that does not grow with the number of cases.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/check/case_result.h"
#include "harness/check/coverage.h"
#include "harness/check/limits.h"
#include "harness/check/pool.h"

namespace shardproof {

// One judged case, as sinks see it.
struct Judged {
  std::uint64_t number = 0;
  std::string origin;  // where a stored case comes from; empty: generated
  const Case& value;
  const CaseResult& result;
};

// One distinct failure.
struct Failure {
  std::string signature;
  std::string subject;
  std::string property;
  Verdict verdict;  // of the shrunk case
  std::uint64_t number = 0;
  std::string origin;
  std::string found;                   // case text
  std::string shrunk;                  // case text
  std::vector<std::string> diagnosis;  // of the case as found
  std::string explanation;             // what of the shrunk case the failure needs
  int evaluations = 0;
  bool is_minimal = false;
  bool is_repeatable = true;
  std::string golden;       // path; empty: not stored
  std::string unstored;     // what could not be stored, and why
  std::uint64_t times = 1;  // seen so far

  // Whether a campaign comes to this one before the other: stored cases run first.
  bool is_before(const Failure& other) const;
};

// What would have been caught in one tensor of one operator, in cases of one dtype.
struct Power {
  Limits limit;     // by the bounds
  Limits baseline;  // by the rule of twice the baseline's error
};

using KindCounts = std::array<std::uint64_t, kVerdictKinds>;

// The largest error as a fraction of the likely bound, for sharded and for single-rank subjects.
struct WorstRatio {
  double sharded = 0;
  double single = 0;
  std::string sharded_case;
};

// The kind of one pool of errors.
struct PoolKey {
  std::string subject;
  std::string tensor;
  DType dtype = DType::kF32;

  auto operator<=>(const PoolKey&) const = default;
};

// Sums, minima and maxima only: neither the order of the cases matters nor in how many campaigns
// they were judged.
class Tally {
 public:
  Tally(const Domain& domain, const Tables& tables);

  void add(const Judged& judged);

  // Adds what a campaign over other cases of the same domain found. Of two failures with one
  // signature the first stays.
  void join(const Tally& other);

  std::uint64_t cases() const;
  std::uint64_t count(VerdictKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  std::uint64_t failing() const;   // cases that count against a subject
  std::uint64_t judged() const;    // cases about which something was said
  std::uint64_t excesses() const;  // pools whose errors are larger than contracts permit
  // Properties of the domain's world that were asked and judged no case.
  std::vector<std::string> idle_properties() const;
  // Subjects of the domain of which no case was judged.
  std::vector<std::string> idle_subjects() const;
  double cases_per_second() const {
    return seconds > 0 ? static_cast<double>(cases()) / seconds : 0;
  }

  const Tables& tables;
  std::string seed;
  std::string part;  // "2/4"; empty: all cases
  int jobs = 1;
  double seconds = 0;
  bool interrupted = false;
  std::uint64_t stored = 0;  // cases that came from files
  KindCounts kinds{};
  std::map<std::pair<std::string, int>, KindCounts> by_property;  // (subject, property)
  std::map<std::string, std::uint64_t> reasons;                   // refused, vacuous and discarded
  std::map<std::pair<std::string, std::string>, WorstRatio> ratios;    // (operator, tensor)
  std::map<std::tuple<std::string, std::string, DType>, Power> power;  // (operator, tensor, dtype)
  std::map<PoolKey, Pool> pools;        // of generated cases that do not fail
  std::uint64_t tensors = 0;            // compared with the reference
  std::uint64_t powerless_tensors = 0;  // whose bounds would hide a structural fault
  Coverage coverage;
  std::uint64_t digest = 0;  // of every case's verdicts and numbers: equal for equal campaigns
  std::vector<Failure> failures;
  std::uint64_t failures_left_out = 0;  // distinct ones beyond the limit

 private:
  void count_reason(VerdictKind kind, std::string_view who, std::string_view why);
  void add_tensors(const Judged& judged);
  void join_failure(const Failure& failure);

  std::vector<const Subject*> subjects_;
  std::string world_;
};

}  // namespace shardproof
