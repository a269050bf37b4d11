// The loss over a vocabulary that is cut along "tp" (Shoeybi et al. 2019, section 3): no rank sees
// all logits of a token, so its maximum, its sum of exponentials, its label's logit and, for
// smoothing, its sum of logits are all-reduced. Tokens are cut along "cp": a label, the next token
// of the sequence, may lie on another rank, and the mean is that of the labels of all ranks.
#include "parallel_impls/subjects.h"
#include "parallel_impls/words.h"

namespace shardproof {
namespace {

std::vector<Index> tokens_of(const Case& value, Index rank_along_cp) {
  return owned_positions(value.placement.layout, value.problem.tokens,
                         value.placement.mesh.size("cp"), rank_along_cp);
}

Range columns_of(const Case& value, Index rank_along_tp) {
  return even_part(value.problem.vocab + value.problem.padding, value.placement.mesh.size("tp"),
                   rank_along_tp);
}

// The ids of the whole sequences, [batch, tokens].
Tensor gathered_ids(Rank& rank) {
  const Problem& problem = rank.problem();
  std::vector<Tensor> blocks;
  std::vector<View> views;
  for (int other = 0; other < rank.size("cp"); ++other) {
    const auto tokens = static_cast<Index>(tokens_of(rank.running(), other).size());
    blocks.push_back(rank.make(DType::kF32, {problem.batch, tokens}));
    views.push_back(blocks.back());
  }
  rank.along("cp").all_gather(rank.get("ids"), views);
  Tensor sequences = rank.make(DType::kF32, {problem.batch, problem.tokens});
  for (int other = 0; other < rank.size("cp"); ++other) {
    const View& block = views[static_cast<std::size_t>(other)];
    Index local = 0;
    for (Index position : tokens_of(rank.running(), other)) {
      rank.device().copy(block.slice(1, local++, 1), sequences.view().slice(1, position, 1));
    }
  }
  return sequences;
}

void forward(Rank& rank) {
  Communicator& tp = rank.along("tp");
  Tensor labels = labels_from(rank, gathered_ids(rank));
  const Tensor maxima = largest_logits(rank);
  tp.all_reduce_maximum(maxima);
  const Tensor sums = sums_of_words(rank, labels, maxima);
  tp.all_reduce(sums);
  Tensor totals = store_losses(rank, labels, maxima, sums);
  rank.along("cp").all_reduce(totals);
  store_mean(rank, totals);
  rank.keep("labels", std::move(labels));
  rank.keep("totals", std::move(totals));
}

void backward(Rank& rank) {
  store_gradients(rank, rank.kept("labels"), rank.kept("totals").slice(0, 1, 1));
}

Shard shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  Shard held = whole(tensor);
  if (tensor.shape.rank() == 1) return held;
  held[1] = tokens_of(value, mesh.coordinate(rank, "cp"));
  if (tensor.shape.rank() == 3) {
    held[2] = indices(columns_of(value, mesh.coordinate(rank, "tp")));
  }
  return held;
}

Contract contract(const Case& value) {
  const Mesh& mesh = value.placement.mesh;
  Partition words;
  for (int rank = 0; rank < mesh.size("tp"); ++rank) {
    words.push_back(indices(columns_of(value, rank)));
    std::erase_if(words.back(), [&](Index column) { return column >= value.problem.vocab; });
  }
  Partition tokens;
  for (int rank = 0; rank < mesh.size("cp"); ++rank) tokens.push_back(tokens_of(value, rank));
  return word_contract(value, words, tokens);
}

Cost cost(const Case& value, int rank) {
  const Problem& problem = value.problem;
  const auto bytes = static_cast<Index>(storage_bytes(accumulator_of(problem.dtype)));
  const auto local = tokens_of(value, value.placement.mesh.coordinate(rank, "cp")).size();
  const Index tokens = problem.batch * static_cast<Index>(local);
  const auto id_bytes = static_cast<Index>(storage_bytes(DType::kF32));
  return traffic_only({
      {Phase::kForward, "all_gather", "cp", 1, tokens * id_bytes},
      {Phase::kForward, "all_reduce_maximum", "tp", 1, tokens * bytes},
      {Phase::kForward, "all_reduce", "tp", 1, 3 * tokens * bytes},
      {Phase::kForward, "all_reduce", "cp", 1, 2 * bytes},
  });
}

}  // namespace

const Subject& vocabulary_parallel_cross_entropy() {
  static const Subject subject{
      .name = "vocabulary_parallel_cross_entropy",
      .op = "cross_entropy",
      .summary = "the vocabulary cut along tp, tokens along cp",
      .axes = {"tp", "cp"},
      .uses_layout = true,
      .contract = contract,
      .cost = cost,
      .unsupported =
          [](const Case& value) {
            return foreign_axis(value.placement.mesh, {"tp", "cp"});
          },
      .shard = shard,
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
