#include "properties/properties.h"

namespace shardproof {
namespace {

Verdict judge(const Evidence& evidence) {
  const Outcome& outcome = evidence.base.outcome;
  if (outcome.ending == Ending::kMismatched) {
    return Verdict::discarded("ranks disagreed: communication_contract judges that");
  }
  return verdict_of_ending(outcome);
}

}  // namespace

const Property& no_deadlock_property() {
  static const Property property{
      .name = "no_deadlock",
      .family = Family::kContract,
      .claim = "Every rank ends by itself, whatever the schedule and however little is buffered.",
      .judge = judge,
      .judges_endings = true,
  };
  return property;
}

}  // namespace shardproof
