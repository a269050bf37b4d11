#include "golden/ring_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "harness/model/operator.h"

namespace shardproof {
namespace {

constexpr Index kMostSteps = 8;  // that are spelt out

// +1 when a rank receives from the rank before it along cp, -1 from the one after, 0 without a
// ring.
Index direction(const Mesh& mesh, const Trace& trace) {
  const int ranks = mesh.size("cp");
  for (const Event& event : trace) {
    if (event.operation != "receive" || event.axis != "cp" || event.peer < 0) continue;
    const int difference = mesh.coordinate(event.rank, "cp") - mesh.coordinate(event.peer, "cp");
    if ((difference + ranks) % ranks == 1) return 1;
    if ((difference + ranks) % ranks == ranks - 1) return -1;
  }
  return 0;
}

bool is_of_keys(std::string_view tensor) {
  constexpr std::array<std::string_view, 4> kOfKeys{"k", "v", "dk", "dv"};
  return std::ranges::find(kOfKeys, tensor) != kOfKeys.end();
}

std::string steps_of_query(const Case& value, Index ranks, Index towards, Index batch,
                           Index token) {
  const Problem& problem = value.problem;
  const Layout layout = value.placement.layout;
  const Index at = owner_of(layout, problem.q, ranks, token).rank;
  std::vector<std::string> steps;
  for (Index step = 0; step < std::min(ranks, kMostSteps); ++step) {
    const Index owner = ((at - towards * step) % ranks + ranks) % ranks;
    const auto keys = owned_positions(layout, problem.kv, ranks, owner);
    const auto seen =
        std::ranges::count_if(keys, [&](Index key) { return visible(problem, batch, token, key); });
    steps.push_back(
        fmt::format("step {}: block of {} ({} keys, {} visible)", step, owner, keys.size(), seen));
  }
  return fmt::format("cp rank {} owns this query; it met {}{}", at, fmt::join(steps, ", "),
                     ranks > kMostSteps ? ", ..." : "");
}

std::string steps_of_key(const Case& value, Index ranks, Index towards, Index token) {
  const Index home = owner_of(value.placement.layout, value.problem.kv, ranks, token).rank;
  std::vector<std::string> steps;
  for (Index step = 0; step < std::min(ranks, kMostSteps); ++step) {
    const Index visitor = ((home + towards * step) % ranks + ranks) % ranks;
    steps.push_back(fmt::format("step {}: rank {}", step, visitor));
  }
  return fmt::format("cp rank {} owns this key; its block was met in {}{}", home,
                     fmt::join(steps, ", "), ranks > kMostSteps ? ", ..." : "");
}

}  // namespace

std::string ring_steps(const Case& value, const Trace& trace, std::string_view tensor, Index batch,
                       Index token) {
  const Mesh& mesh = value.placement.mesh;
  const Index ranks = mesh.size("cp");
  const Index towards = ranks > 1 ? direction(mesh, trace) : 0;
  const auto& keys = value.problem.op->keys;
  // Only attention has keys and values, and only where both lengths are given are they cut apart.
  if (towards == 0 || value.problem.mask.mask == nullptr ||
      std::ranges::find(keys, "kv") == keys.end()) {
    return "";
  }
  const bool of_keys = is_of_keys(tensor);
  if (token < 0 || token >= (of_keys ? value.problem.kv : value.problem.q)) return "";
  return of_keys ? steps_of_key(value, ranks, towards, token)
                 : steps_of_query(value, ranks, towards, batch, token);
}

}  // namespace shardproof
