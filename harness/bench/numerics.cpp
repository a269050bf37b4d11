// numerics CASE COUNT: what each way to compare sees of a fault. Runs the case, whose subject may
// be a mutant, with COUNT seeds, and prints in percent of them where each detector objects: the
// bounds T1 and T2, T2 and the RMS test T3, T2 and T4 (the RMS against that of the subject on one
// device), the matched filter, the exact probe, allclose with 1e-2, and twice the error of one
// device. ci/power makes a table of it.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "harness/check/compare.h"
#include "harness/check/judge.h"
#include "harness/check/noise.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/model/element.h"
#include "harness/model/require.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

struct Seen {
  int worst = 0, likely = 0, noise = 0, ratio = 0, filter = 0, probe = 0, close = 0, twice = 0;
  double largest_ratio = 0;  // of the RMS, of T4
};

struct Errors {
  double largest = 0;
  bool close = true;
};

Errors errors_of(const Gathered& got, const std::vector<double>& want) {
  Errors result;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got.got[i] == want[i]) continue;
    const double error = std::fabs(got.got[i] - want[i]);
    result.largest = std::max(result.largest, error);
    if (!(error <= 1e-2 + 1e-2 * std::fabs(want[i]))) result.close = false;
  }
  return result;
}

class Detectors {
 public:
  explicit Detectors(const Tables& tables) : tables_(tables), judge_(tables) {}

  // Counts what objects to the case.
  void look(const Case& value, Seen& seen) {
    const CaseReport report = judge(value, "matches_reference");
    Case alone = value;
    alone.placement.subject = single_subject(value.problem.op->name);
    alone.placement.mesh = {};
    alone.placement.layout = Layout::kContiguous;
    const CaseReport single = judge(alone, "matches_reference");
    bool worst = false, likely = false, noise = false, ratio = false, close = true, twice = false;
    const Expected& expected = report.base->expected(Effort::kAll);
    for (const ExpectedTensor& want : expected.tensors) {
      const Gathered& got = *report.base->outcome.find(want.spec.name);
      const Comparison compared = compare(got, want);
      worst = worst || !(compared.worst_ratio <= 1);
      likely = likely || !(compared.likely_ratio <= 1);
      noise = noise || (want.rms_applies && !(compared.rms <= kLargestRms));
      const Errors mine = errors_of(got, want.want);
      const Gathered& one = *single.base->outcome.find(want.spec.name);
      const Errors base = errors_of(one, want.want);
      close = close && mine.close;
      twice = twice || !(mine.largest <= 2 * base.largest);
      if (!want.rms_applies) continue;
      const Noise compared_with_one = compare_noise(got, one, want);
      seen.largest_ratio = std::max(seen.largest_ratio, std::sqrt(compared_with_one.ratio));
      ratio = ratio || compared_with_one.exceeds();
    }
    seen.worst += worst;
    seen.likely += likely;
    seen.noise += likely || noise;
    seen.ratio += likely || ratio;
    seen.close += !close;
    seen.twice += twice;
    seen.filter += objects(value, "no_known_fault_fits");
    seen.probe += objects(value, "sums_lose_nothing");
  }

 private:
  CaseReport judge(const Case& value, std::string_view property) {
    const Property* const only[] = {tables_.property(property)};
    CaseReport report = judge_.judge(value, only);
    if (!report.base || report.base->outcome.ending != Ending::kCompleted) {
      throw Error("no results: " + to_text(value));
    }
    return report;
  }

  bool objects(const Case& value, std::string_view property) {
    return judge(value, property).overall == VerdictKind::kFalsified;
  }

  std::string single_subject(std::string_view op) const {
    const auto found =
        std::find_if(tables_.subjects.begin(), tables_.subjects.end(), [&](const Subject* each) {
          return each->op == op && each->axes.empty() && each->fault == nullptr;
        });
    require(found != tables_.subjects.end(), "every operator has a subject on one rank");
    return std::string((*found)->name);
  }

  const Tables& tables_;
  Judge judge_;
};

void run_numerics(const char* text, int count) {
  const Tables tables{all_operators(),  all_masks(),  all_subjects(),
                      all_properties(), all_worlds(), all_devices()};
  Case value = parse_case(text, tables.vocabulary());
  Detectors detectors(tables);
  Seen seen;
  for (int i = 0; i < count; ++i) {
    value.problem.seed = mix(static_cast<std::uint64_t>(i)) >> 32;
    detectors.look(value, seen);
  }
  const auto percent = [&](int times) { return 100 * times / count; };
  fmt::print("{} {} {} {} {} {} {} {} {:.3f}\n", percent(seen.worst), percent(seen.likely),
             percent(seen.noise), percent(seen.ratio), percent(seen.filter), percent(seen.probe),
             percent(seen.close), percent(seen.twice), seen.largest_ratio);
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[2]) < 1) {
    fmt::print(stderr, "usage: numerics CASE COUNT\n");
    return 2;
  }
  try {
    shardproof::run_numerics(argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "numerics: {}\n", error.what());
    return 2;
  }
}
