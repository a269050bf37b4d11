// Contract: how many scores each rank computes in the forward pass is what the subject promises,
// and under a causal mask what the layout implies.
#include <fmt/format.h>

#include <algorithm>

#include "properties/properties.h"
#include "properties/tokens.h"

namespace shardproof {
namespace {

// What one rank holds of q: tokens, and how many (batch, head) pairs.
struct Queries {
  std::vector<Index> tokens;
  double pairs = 0;
};

Queries queries_of(const Run& run, int rank) {
  for (const TensorSpec& spec : run.value.problem.op->tensors(run.value.problem)) {
    if (spec.name != "q") continue;
    const Shard shard = run.subject->shard(run.value, spec, rank);  // [batch, q, heads, dim]
    return {shard[1], static_cast<double>(shard[0].size() * shard[2].size())};
  }
  return {};
}

Verdict wrong(std::string_view symptom, std::string message, double got, double want) {
  Verdict result = Verdict::falsified(symptom, std::move(message));
  result.got = got;
  result.want = want;
  return result;
}

double measured(const Run& run, int rank) {
  return run.outcome.ranks[static_cast<std::size_t>(rank)].meter.score_elements;
}

const Cost& promise(const Run& run, int rank) {
  return run.costs()[static_cast<std::size_t>(rank)];
}

// Every rank against what the subject promises for it.
Verdict compare_with_promises(const Run& run) {
  bool promised = false;
  for (int rank = 0; rank < static_cast<int>(run.outcome.ranks.size()); ++rank) {
    const Cost& cost = promise(run, rank);
    if (!cost.score_elements) continue;
    promised = true;
    const double got = measured(run, rank);
    if (got == *cost.score_elements) continue;
    return wrong(
        "work differs",
        fmt::format("rank {} computed {} scores, promised {}", rank, got, *cost.score_elements),
        got, *cost.score_elements);
  }
  return promised ? Verdict::holds() : Verdict::discarded("the subject promises no work");
}

bool is_square_causal(const Problem& problem) {
  return uses_key(problem, "mask") && uses_key(problem, "kv") &&
         problem.mask.mask->name == "causal" && problem.q == problem.kv && problem.kv > 0;
}

// Query i sees i + 1 keys: a rank that owns tokens i computes at least the sum of i + 1. One that
// holds keys block by block skips the blocks of ranks whose tokens all come later: under the
// contiguous layout rank r needs its own block and those of the ranks before it, so at most
// tokens(r) * (tokens(0) + ... + tokens(r)) = tokens(r) * (last token + 1). That is as uneven as
// theory says: 1, 2, ..., R block pairs.
Verdict compare_with_theory(const Run& run, int rank, bool by_blocks) {
  const Queries queries = queries_of(run, rank);
  double least = 0;
  for (Index token : queries.tokens) least += static_cast<double>(token + 1) * queries.pairs;
  const double got = measured(run, rank);
  if (!(got >= least)) {
    return wrong("too little work",
                 fmt::format("rank {} computed {} scores, its queries see {}", rank, got, least),
                 got, least);
  }
  if (!by_blocks || run.value.placement.layout != Layout::kContiguous || queries.tokens.empty()) {
    return Verdict::holds();
  }
  const double most = queries.pairs * static_cast<double>(queries.tokens.size()) *
                      static_cast<double>(queries.tokens.back() + 1);
  if (got <= most) return Verdict::holds();
  return wrong("too much work",
               fmt::format("rank {} computed {} scores, blocks that the mask leaves hold {}", rank,
                           got, most),
               got, most);
}

// Zigzag and striped: the ranks of one ring are within one block pair of each other. With 2R parts
// of c tokens, zigzag's rank r needs (r + 1) + (2R - r) = 2R + 1 pairs of parts whatever r is;
// striped ranks need every block. Where 2R does not divide n, parts differ by one token: each of a
// rank's two parts may meet up to n keys more, and so may the prefixes they meet: 3n in all.
Verdict compare_within_ring(const Run& run, int rank) {
  const Index tokens = run.value.problem.kv;
  const std::vector<int> ring = run.value.placement.mesh.group(rank, "cp");
  if (ring.front() != rank || run.value.placement.layout == Layout::kContiguous) {
    return Verdict::holds();
  }
  double least = measured(run, rank);
  double most = least;
  double longest = 0;
  double pairs = 0;
  for (int member : ring) {
    const Queries queries = queries_of(run, member);
    longest = std::max(longest, static_cast<double>(queries.tokens.size()));
    pairs = std::max(pairs, queries.pairs);
    least = std::min(least, measured(run, member));
    most = std::max(most, measured(run, member));
  }
  const bool divides = tokens % (2 * static_cast<Index>(ring.size())) == 0;
  const double slack = divides ? 0 : 3 * static_cast<double>(tokens);
  const double allowed = pairs * (longest * longest + slack);
  if (most - least <= allowed) return Verdict::holds();
  return wrong("unbalanced",
               fmt::format("ranks of the ring of rank {} computed {} to {} scores, {} apart is "
                           "allowed",
                           rank, least, most, allowed),
               most - least, allowed);
}

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  Verdict verdict = compare_with_promises(run);
  if (verdict.kind != VerdictKind::kHolds || !is_square_causal(run.value.problem)) return verdict;
  for (int rank = 0; rank < static_cast<int>(run.outcome.ranks.size()); ++rank) {
    const bool by_blocks = promise(run, rank).kv_resident_bytes.has_value();
    verdict = compare_with_theory(run, rank, by_blocks);
    if (!is_failure(verdict.kind)) verdict = compare_within_ring(run, rank);
    if (is_failure(verdict.kind)) return verdict;
  }
  return verdict;
}

}  // namespace

const Property& work_balance_property() {
  static const Property property{
      .name = "work_balance",
      .family = Family::kContract,
      .claim = "Each rank computes as many scores as promised; zigzag and striped rings are even.",
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
