// Contract: what each rank communicates, summed by (phase, operation, axis), is what the subject
// promises, exactly: calls and bytes.
#include <fmt/format.h>

#include <algorithm>

#include "properties/properties.h"

namespace shardproof {
namespace {

Traffic* find(std::vector<Traffic>& list, Phase phase, std::string_view operation,
              std::string_view axis) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Traffic& each) {
    return each.phase == phase && each.operation == operation && each.axis == axis;
  });
  return found == list.end() ? nullptr : &*found;
}

Verdict differs(std::string_view symptom, int rank, const Traffic& got, const Traffic& want) {
  const std::string_view phase = want.phase == Phase::kForward ? "forward" : "backward";
  Verdict result = Verdict::falsified(
      symptom,
      fmt::format("rank {}, {}, {} along '{}': {} calls and {} bytes, promised {} and {}", rank,
                  phase, want.operation, want.axis, got.calls, got.bytes, want.calls, want.bytes));
  const bool calls = got.calls != want.calls;
  result.got = static_cast<double>(calls ? got.calls : got.bytes);
  result.want = static_cast<double>(calls ? want.calls : want.bytes);
  return result;
}

// A receive hands nothing in: it is the other side's send, and need not be promised.
Verdict compare_rank(int rank, std::vector<Traffic> got, const std::vector<Traffic>& promised) {
  for (const Traffic& want : promised) {
    Traffic none{want.phase, want.operation, want.axis};
    Traffic* sum = find(got, want.phase, want.operation, want.axis);
    if (sum == nullptr) sum = &none;
    if (sum->calls != want.calls) return differs("calls differ", rank, *sum, want);
    if (sum->bytes != want.bytes) return differs("bytes differ", rank, *sum, want);
    sum->calls = 0;  // accounted for
  }
  for (const Traffic& rest : got) {
    if (rest.calls == 0 || rest.operation == "receive") continue;
    return differs("calls differ", rank, rest, {rest.phase, rest.operation, rest.axis});
  }
  return Verdict::holds();
}

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  if (run.outcome.ending == Ending::kMismatched) return verdict_of_ending(run.outcome);
  if (run.outcome.ending != Ending::kCompleted) return Verdict::discarded("the run did not end");
  bool promised = false;
  for (std::size_t rank = 0; rank < run.outcome.ranks.size(); ++rank) {
    const Cost& cost = run.costs()[rank];
    if (!cost.traffic) continue;
    promised = true;
    Verdict verdict =
        compare_rank(static_cast<int>(rank), run.outcome.ranks[rank].traffic, *cost.traffic);
    if (is_failure(verdict.kind)) return verdict;
  }
  return promised ? Verdict::holds() : Verdict::discarded("the subject promises no traffic");
}

}  // namespace

const Property& communication_contract_property() {
  static const Property property{
      .name = "communication_contract",
      .family = Family::kContract,
      .claim = "Ranks agree about every communication, and calls and bytes are those promised.",
      .judge = judge,
      .judges_endings = true,
  };
  return property;
}

}  // namespace shardproof
