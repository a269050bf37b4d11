// Property: one claim about a subject. It names the runs it needs and judges them; it never runs
// anything itself, and its verdict is a value.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/world.h"

namespace shardproof {

enum class VerdictKind {
  kHolds,
  kFalsified,
  kRefused,    // the subject said cleanly that it does not support the case
  kVacuous,    // the claim held but could not have failed: the bound hides any structural fault
  kDiscarded,  // the claim does not apply to this case
  kCrashed,
  kDeadlocked,
  kTimedOut,
};
inline constexpr int kVerdictKinds = 8;
std::string_view name(VerdictKind kind);

// Whether it counts against the subject.
bool is_failure(VerdictKind kind);

struct Verdict {
  VerdictKind kind = VerdictKind::kHolds;
  std::string message;
  std::string tensor;   // the first tensor concerned, where there is one
  std::string symptom;  // what kind of wrong, in a few fixed words: "over the worst-case bound"
  Index element = -1;   // row-major position of the worst element
  double got = 0;
  double want = 0;
  double bound = 0;

  static Verdict holds() { return {}; }
  static Verdict discarded(std::string why);
  static Verdict vacuous(std::string why);
  static Verdict falsified(std::string_view symptom, std::string message);
};

// What a run that did not complete says by its ending alone; holds when it completed.
Verdict verdict_of_ending(const Outcome& outcome);

// One run and what is needed to judge it.
struct Run {
  Case value;
  const Subject* subject = nullptr;
  Contract contract;
  Outcome outcome;

  // The reference's answer with bounds for this run's contract. Computed on first use, and again
  // when more effort is asked for, which ends the life of what was returned before.
  std::function<const Expected&(Effort)> expected;

  // What the subject promises for each rank. Computed on first use.
  std::function<const std::vector<Cost>&()> costs;
};

// A property's base run and, in the order of Property::variants, the other runs it asked for.
struct Evidence {
  const Run& base;
  std::span<const Run* const> variants;
};

enum class Family { kOracle, kInvariance, kMetamorphic, kDeterminism, kContract };
std::string_view name(Family family);

struct Property {
  std::string_view name;
  Family family = Family::kOracle;
  std::string_view claim;  // one sentence

  // Why the claim says nothing about this case, or an empty string. May be null: always applies.
  std::string (*inapplicable)(const Case& value, const Subject& subject) = nullptr;

  // The further cases to run; of the same subject. May be null: none. Called only where the
  // property applies. Cases that are not supported are left out; when none remains, the case is
  // discarded. A case equal to `value` is a run of its own, other equal cases share one.
  std::vector<Case> (*variants)(const Case& value, const Subject& subject) = nullptr;

  // Called only when every run it named completed, unless `judges_endings`. A variant that did not
  // complete falsifies the property by its ending.
  Verdict (*judge)(const Evidence& evidence) = nullptr;

  // Judges runs that did not complete, too.
  bool judges_endings = false;

  // Is falsified only by all variants together: `judge` is called after each of them, and the first
  // verdict that is no failure is final, so that the others need not run.
  bool fails_by_all = false;

  // Says something about cases of this world alone, and about each of them: it takes no turns with
  // other properties, and its mutants are hunted there. Empty: about cases of every world.
  std::string_view hunted_in = {};
};

// What makes two failures the same: subject, property, kind, symptom and tensor.
std::string signature(std::string_view subject, std::string_view property, const Verdict& verdict);

}  // namespace shardproof
