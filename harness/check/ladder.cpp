#include "harness/check/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "harness/check/compare.h"

namespace shardproof {
namespace {

// One type of a contract that a subject may round to.
struct Rung {
  std::string_view name;
  DType Precision::*type;
};

constexpr std::array<Rung, 10> kRungs{{
    {"score", &Precision::score},
    {"probability", &Precision::probability},
    {"score_gradient", &Precision::score_gradient},
    {"saved_out", &Precision::saved_out},
    {"lse", &Precision::lse},
    {"block_out", &Precision::block_out},
    {"query_gradient", &Precision::query_gradient},
    {"kv_gradient", &Precision::kv_gradient},
    {"middle", &Precision::middle},
    {"reduction", &Precision::reduction},
}};

// Above this many multiply-adds a dozen references with worst cases take seconds.
constexpr double kMostWork = 2e7;

// A run against contracts that differ from its own.
class Climb {
 public:
  explicit Climb(const Run& run)
      : run_(run), precision_(run.contract.precision), last_(evaluate(precision_)) {}

  bool holds() const { return holds(last_); }

  // Rounding to nothing narrower than the accumulator, one type after another, as long as it holds.
  std::string tightest() {
    std::vector<std::string> kept, broken;
    for (const Rung& rung : kRungs) {
      if (!is_narrower(precision_.*rung.type)) continue;
      Expected tighter = evaluate(with(rung, precision_.accumulator));
      if (!differs(tighter)) continue;
      if (holds(tighter)) {
        precision_.*rung.type = precision_.accumulator;
        last_ = std::move(tighter);
      } else {
        broken.push_back(text(rung, precision_.accumulator));
      }
      kept.push_back(text(rung, precision_.*rung.type));
    }
    if (kept.empty()) return "";
    return fmt::format("holds as {}{}{}", fmt::join(kept, " "), broken.empty() ? "" : "; fails as ",
                       fmt::join(broken, ", as "));
  }

  // What would have to be declared, one type alone.
  std::string looser() const {
    std::vector<std::string> kept;
    for (const Rung& rung : kRungs) {
      if (is_narrower(precision_.*rung.type)) continue;
      for (DType narrow : {DType::kTf32, DType::kF16, DType::kBf16}) {
        if (!holds(evaluate(with(rung, narrow)))) continue;
        kept.push_back(text(rung, narrow));
        break;
      }
    }
    if (kept.empty()) return "fails as declared, and whatever one type were narrower";
    return fmt::format("fails as declared; holds as {}", fmt::join(kept, ", as "));
  }

 private:
  bool is_narrower(DType type) const {
    return format(type).precision < format(precision_.accumulator).precision;
  }

  static std::string text(const Rung& rung, DType type) {
    return fmt::format("{}={}", rung.name, format(type).name);
  }

  Precision with(const Rung& rung, DType type) const {
    Precision result = precision_;
    result.*rung.type = type;
    return result;
  }

  Expected evaluate(const Precision& precision) const {
    Contract contract = run_.contract;
    contract.precision = precision;
    const Problem& problem = run_.value.problem;
    return problem.op->evaluate(problem, contract, Effort::kAll);
  }

  bool holds(const Expected& expected) const {
    return std::all_of(expected.tensors.begin(), expected.tensors.end(), [&](const auto& want) {
      const Gathered* got = run_.outcome.find(want.spec.name);
      return got != nullptr && compare(*got, want).symptom.empty();
    });
  }

  // Whether a contract permits anything else than the tightest so far.
  bool differs(const Expected& expected) const {
    for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
      if (expected.tensors[i].likely != last_.tensors[i].likely) return true;
    }
    return false;
  }

  const Run& run_;
  Precision precision_;  // the tightest so far
  Expected last_;        // its bounds
};

}  // namespace

std::string ladder(const Run& run) {
  if (run.value.problem.op->work(run.value.problem) > kMostWork) return "";
  Climb climb(run);
  return climb.holds() ? climb.tightest() : climb.looser();
}

}  // namespace shardproof
