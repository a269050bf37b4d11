#include "harness/worlds/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/worlds/sim_group.h"
#include "harness/worlds/sim_messages.h"

namespace shardproof {
namespace {

constexpr std::size_t kDescribed = 8;

bool waits(const SimRank& rank) {
  return rank.awaited != nullptr || rank.awaited_group != nullptr || rank.awaits_launches;
}

// The rank that `rank` waits for: its peer, or the first member missing from its collective.
int awaited_rank(const SimRank& rank) {
  if (rank.awaited != nullptr) return rank.awaited->peer;
  if (rank.awaits_launches) return rank.index();
  const SimGroup& group = *rank.awaited_group;
  for (int i = 0; i < group.size(); ++i) {
    if (!group.calls[static_cast<std::size_t>(i)].arrived) {
      return group.members[static_cast<std::size_t>(i)];
    }
  }
  return rank.index();
}

std::string sentence(const SimRank& rank) {
  if (rank.awaited != nullptr) {
    return fmt::format("rank {} waits to {}", rank.index(), describe(*rank.awaited));
  }
  if (rank.awaits_launches) {
    return fmt::format("rank {} waits for its device, which waits for other ranks", rank.index());
  }
  const SimGroup& group = *rank.awaited_group;
  const SimCall& call = group.calls[static_cast<std::size_t>(group.position_of(rank.index()))];
  return fmt::format("rank {} waits in {} for rank {} ({})", rank.index(), call.operation,
                     awaited_rank(rank), place(group.axis, rank.log.phase));
}

}  // namespace

std::string wait_for_graph(const SimRun& run, int ranks) {
  std::vector<int> waiting;
  for (int r = 0; r < ranks; ++r) {
    if (waits(*run.ranks[static_cast<std::size_t>(r)])) waiting.push_back(r);
  }
  std::string text = "no rank can go on: ";
  std::vector<int> described;
  int next = waiting.front();
  const auto seen = [&] {
    return std::find(described.begin(), described.end(), next) != described.end();
  };
  while (described.size() < kDescribed && !seen()) {
    const SimRank& rank = *run.ranks[static_cast<std::size_t>(next)];
    if (!described.empty()) text += "; ";
    if (!waits(rank)) {
      text += fmt::format("rank {} has finished", next);
      break;
    }
    text += sentence(rank);
    described.push_back(next);
    next = awaited_rank(rank);
  }
  const std::size_t others = waiting.size() - described.size();
  if (others > 0) text += fmt::format("; {} more wait", others);
  return text;
}

}  // namespace shardproof
