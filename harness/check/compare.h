// Compare: one output or gradient against the reference and its bounds, or against another run.
// Every comparison is stated positively, so that NaN fails; dtype and shape come before values.
// -0 equals +0; an infinite bound accepts anything; infinities must match exactly otherwise.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "harness/check/property.h"

namespace shardproof {

// The kinds of wrong. They are part of a failure's signature, so they are few and fixed.
namespace symptom {
inline constexpr std::string_view kDtype = "wrong dtype";
inline constexpr std::string_view kShape = "wrong shape";
inline constexpr std::string_view kUnwritten = "unwritten";
inline constexpr std::string_view kNotANumber = "not a number";
inline constexpr std::string_view kInfinite = "infinite";
inline constexpr std::string_view kWorst = "over the worst-case bound";
inline constexpr std::string_view kLikely = "over the 6-sigma bound";
inline constexpr std::string_view kNoise = "too noisy (RMS)";
inline constexpr std::string_view kBits = "bits differ";
}  // namespace symptom

// The largest RMS(error / sigma) of a tensor to which T3 applies. Correct 16-bit runs measure 1.01
// to 1.03 on tensors of at least 1024 elements, where the sampling error of an RMS is 2 %.
inline constexpr double kLargestRms = 1.15;

// Whether one element is within its bound.
inline bool accepts(double got, double want, double bound) {
  return (got == want) | (std::fabs(got - want) <= bound) |
         (bound == std::numeric_limits<double>::infinity());
}

// One tensor compared: the numbers that people read, whether it was accepted or not.
struct Comparison {
  std::string_view tensor;
  std::string_view symptom;  // empty: accepted
  Index elements = 0;
  Index rejected = 0;                // elements over their bound
  double worst_ratio = 0;            // greatest error / T1; 0 when T1 was not computed
  double likely_ratio = 0;           // greatest error / T2
  double rms = 0;                    // RMS(error / sigma); 0 when sigma was not computed
  double allowed_rms = kLargestRms;  // more where few roundings make the error of many elements
  Index element = -1;  // the element reported: the first NaN or infinity, else the worst
  double got = 0;      // there
  double want = 0;
  double bound = 0;
};

// `got` against the reference. T1 decides only where it was computed (Effort::kAll).
Comparison compare(const Gathered& got, const ExpectedTensor& want);

// `got` against `other`, within the sum of both likely bounds. Null bounds count as zero.
Comparison compare(const Gathered& got, const Gathered& other, const ExpectedTensor* got_bounds,
                   const ExpectedTensor* other_bounds);

// `got` against `other` bit for bit (NaN equals NaN) where `keep` is not 0; an empty `keep` means
// everywhere.
Comparison compare_bits(const Gathered& got, const Gathered& other,
                        std::span<const std::uint8_t> keep = {});

// Holds, or falsified with a message that names the element by its coordinates.
Verdict verdict_of(const Comparison& comparison, const Shape& shape);

// Every output and gradient of a completed run against the reference, in the operator's order; for
// reports.
std::vector<Comparison> compare_all(const Run& run, Effort effort);

// What a tensor's bounds would show of a structural fault.
enum class Sharpness {
  kSharp,  // some element would be over its bound
  kBlunt,  // none: the fault could hide
  kIdle,   // the fault changes nothing: the tensor is empty, or 0 whatever is left out
};

// The fault is that one of `parts` shares of the tensor is left out, which moves an element by its
// share (of `want` or, where terms cancel, of the root of their squares), or that its two halves
// are swapped. It shows where an element moves by more than twice its T2: the wrong result may be
// off by T2 itself. An exact element (T2 = 0) shows all.
Sharpness sharpness(const ExpectedTensor& want, int parts);

// The smallest factor by which a whole tensor could be wrong and be seen: with got = want (1 + e),
// the least |e| that takes some element over its likely bound. Infinite when none would.
double detection_limit(const ExpectedTensor& want);

// The same for the rule "at most twice the largest error of a baseline", taking `got` for it.
double baseline_limit(const Gathered& got, const ExpectedTensor& want);

}  // namespace shardproof
