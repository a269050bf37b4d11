// Contract: no rank ever keeps more bytes of other ranks' keys and values than the subject
// promises.
#include <fmt/format.h>

#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  bool promised = false;
  for (std::size_t rank = 0; rank < run.outcome.ranks.size(); ++rank) {
    const Cost& cost = run.costs()[rank];
    if (!cost.kv_resident_bytes) continue;
    promised = true;
    const Index got = run.outcome.ranks[rank].peak_received_bytes;
    if (got <= *cost.kv_resident_bytes) continue;
    Verdict result = Verdict::falsified(
        "too much resident", fmt::format("rank {} held {} bytes of received keys and values at "
                                         "once, promised at most {}",
                                         rank, got, *cost.kv_resident_bytes));
    result.got = static_cast<double>(got);
    result.want = static_cast<double>(*cost.kv_resident_bytes);
    return result;
  }
  return promised ? Verdict::holds() : Verdict::discarded("the subject promises no residency");
}

}  // namespace

const Property& kv_residency_property() {
  static const Property property{
      .name = "kv_residency",
      .family = Family::kContract,
      .claim = "No rank keeps more of other ranks' keys and values at once than promised.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
