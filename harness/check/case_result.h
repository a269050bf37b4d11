// CaseResult: what a worker tells the driver about one case: its verdicts and the numbers behind
// them, as plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/check/compare.h"
#include "harness/check/judge.h"

namespace shardproof {

// How far one output or gradient lies from the reference: errors as fractions of their bounds.
struct TensorNumbers {
  std::string tensor;
  double error = 0;   // largest absolute error
  double worst = 0;   // largest error / T1; 0 unless asked for
  double likely = 0;  // largest error / T2
  double rms = 0;     // rms error / model rms; 0 where there is no model
  double limit = 0;   // detection_limit
  double baseline_limit = 0;
  double mean_square = -1;  // mean_square_error
  Sharpness sharpness = Sharpness::kIdle;
};

struct PropertyResult {
  int property = kRun;  // position in Tables::properties
  Verdict verdict;

  // The pseudo-property of a run that took its process down.
  static constexpr int kRun = -1;
};

struct CaseResult {
  VerdictKind overall = VerdictKind::kDiscarded;
  std::string refusal;  // the subject's reason
  std::vector<PropertyResult> properties;
  std::vector<TensorNumbers> tensors;
  std::vector<std::string> diagnosis;  // of a failure, with all numbers
  std::string ladder;                  // of a run that completed, with all numbers
  std::string trouble;                 // set when the environment, not the subject, is wrong
  bool has_golden = false;             // whether the golden that was asked for is stored
  std::string unstored;                // why it could not be

  // The gravest failure: the first that counts against the subject, or null.
  const PropertyResult* first_failure() const;

  std::string packed() const;
  static CaseResult unpacked(std::string_view bytes);
};

// "matches_reference", or "survives" for a run that took its process down.
std::string_view property_name(int property, const Tables& tables);

// The result of a case whose worker died or was killed.
CaseResult lost(VerdictKind kind, std::string symptom, std::string message);

// The numbers of a run's tensors; T1 and rms only with `all`.
std::vector<TensorNumbers> tensor_numbers(const Run& run, bool all);

CaseResult summarize(const CaseReport& report, const Tables& tables, bool all_numbers);

}  // namespace shardproof
