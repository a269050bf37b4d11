// Contract: how many scores each rank computes in the forward pass is what the subject promises,
// and under a causal mask what the layout implies.
#include <fmt/format.h>

#include <algorithm>

#include "properties/properties.h"

namespace shardproof {
namespace {

// What a rank holds of q or k [batch, tokens, heads, dim].
struct Holding {
  std::vector<Index> tokens;
  double heads = 0;
};

std::vector<Holding> holdings_of(const Run& run, std::string_view tensor) {
  std::vector<Holding> result;
  for (const TensorSpec& spec : run.value.problem.op->tensors(run.value.problem)) {
    if (spec.name != tensor) continue;
    for (int rank = 0; rank < run.value.placement.mesh.ranks(); ++rank) {
      Shard shard = run.subject->shard(run.value, spec, rank);
      result.push_back({std::move(shard[1]), static_cast<double>(shard[2].size())});
    }
  }
  return result;
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

// What one query head of a rank must and may compute, over all batch entries.
struct Limits {
  std::vector<Index> queries;
  double least = 0;  // scores that the mask leaves
  double most = 0;   // blocks, one a rank of the ring, of which it leaves anything
};

Limits limits_of(const Problem& problem, const std::vector<Index>& queries,
                 const std::vector<const Holding*>& blocks) {
  Limits limits{queries};
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (const Holding* block : blocks) {
      Index seen = 0;
      for (Index query : queries) {
        for (Index key : block->tokens) seen += visible(problem, batch, query, key);
      }
      limits.least += static_cast<double>(seen);
      if (seen > 0) limits.most += static_cast<double>(queries.size() * block->tokens.size());
    }
  }
  return limits;
}

// Every visible score must be computed. Who holds keys block by block skips the blocks that the
// mask empties: a contiguous causal ring then is as uneven as theory says, 1, 2, ..., R blocks.
Verdict compare_with_mask(const Run& run, const std::vector<Holding>& queries,
                          const std::vector<Holding>& keys) {
  std::vector<Limits> known;  // ranks that share tokens share limits
  for (int rank = 0; rank < static_cast<int>(queries.size()); ++rank) {
    const Holding& mine = queries[static_cast<std::size_t>(rank)];
    auto limits = std::find_if(known.begin(), known.end(),
                               [&](const Limits& each) { return each.queries == mine.tokens; });
    if (limits == known.end()) {
      std::vector<const Holding*> blocks;
      for (int member : run.value.placement.mesh.group(rank, "cp")) {
        blocks.push_back(&keys[static_cast<std::size_t>(member)]);
      }
      known.push_back(limits_of(run.value.problem, mine.tokens, blocks));
      limits = known.end() - 1;
    }
    const double got = measured(run, rank);
    const double least = limits->least * mine.heads;
    const double most = limits->most * mine.heads;
    if (!(got >= least)) {
      return wrong("too little work",
                   fmt::format("rank {} computed {} scores, its queries see {}", rank, got, least),
                   got, least);
    }
    if (promise(run, rank).kv_resident_bytes && !(got <= most)) {
      return wrong("too much work",
                   fmt::format("rank {} computed {} scores, blocks that the mask leaves hold {}",
                               rank, got, most),
                   got, most);
    }
  }
  return Verdict::holds();
}

// Causal, as many queries as keys, zigzag or striped: the ranks of a ring are within one block pair
// of each other. With 2R parts of c tokens zigzag's rank r needs (r + 1) + (2R - r) = 2R + 1 pairs
// of parts whatever r is; striped ranks need every block. Where 2R does not divide n, parts differ
// by one token: each of a rank's two parts may meet up to n keys more, and so may the prefixes they
// meet: 3n in all.
bool is_balanced_by_theory(const Case& value) {
  return value.problem.mask.mask->name == "causal" && value.problem.q == value.problem.kv &&
         value.placement.layout != Layout::kContiguous;
}

Verdict compare_within_ring(const Run& run, int first, const std::vector<Holding>& queries) {
  const std::vector<int> ring = run.value.placement.mesh.group(first, "cp");
  if (ring.front() != first) return Verdict::holds();
  double least = measured(run, first);
  double most = least;
  double longest = 0;
  for (int member : ring) {
    const Holding& mine = queries[static_cast<std::size_t>(member)];
    longest = std::max(longest, static_cast<double>(mine.tokens.size()));
    least = std::min(least, measured(run, member));
    most = std::max(most, measured(run, member));
  }
  const Index tokens = run.value.problem.kv;
  const bool divides = tokens % (2 * static_cast<Index>(ring.size())) == 0;
  const double pairs =
      static_cast<double>(run.value.problem.batch) * queries[static_cast<std::size_t>(first)].heads;
  const double slack = divides ? 0 : 3 * static_cast<double>(tokens);
  const double allowed = pairs * (longest * longest + slack);
  if (most - least <= allowed) return Verdict::holds();
  return wrong("unbalanced",
               fmt::format("ranks of the ring of rank {} computed {} to {} scores, {} apart is "
                           "allowed",
                           first, least, most, allowed),
               most - least, allowed);
}

// Where queries travel, shards do not tell who scores what, but all ranks together compute every
// visible score of every head.
Verdict compare_sum_with_mask(const Run& run) {
  const Problem& problem = run.value.problem;
  double visible_scores = 0;
  for (Index batch = 0; batch < problem.batch; ++batch) {
    for (Index query = 0; query < problem.q; ++query) {
      for (Index key = 0; key < problem.kv; ++key) {
        visible_scores += visible(problem, batch, query, key);
      }
    }
  }
  const double least = static_cast<double>(problem.heads) * visible_scores;
  double got = 0;
  for (const RankFacts& facts : run.outcome.ranks) got += facts.meter.score_elements;
  if (got >= least) return Verdict::holds();
  return wrong("too little work",
               fmt::format("all ranks computed {} scores, the mask leaves {}", got, least), got,
               least);
}

Verdict judge(const Evidence& evidence) {
  const Run& run = evidence.base;
  Verdict verdict = compare_with_promises(run);
  if (verdict.kind != VerdictKind::kHolds) return verdict;
  if (run.subject->queries_travel) return compare_sum_with_mask(run);
  const std::vector<Holding> queries = holdings_of(run, "q");
  const std::vector<Holding> keys = holdings_of(run, "k");
  if (queries.empty()) return verdict;  // attention inside a layer is not cut along tokens
  verdict = compare_with_mask(run, queries, keys);
  if (is_failure(verdict.kind) || !is_balanced_by_theory(run.value)) return verdict;
  for (int rank = 0; rank < static_cast<int>(queries.size()); ++rank) {
    verdict = compare_within_ring(run, rank, queries);
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
