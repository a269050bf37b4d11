// The next-word loss on one rank, in the precision of the sharded subject.
#include "parallel_impls/subjects.h"
#include "parallel_impls/words.h"

namespace shardproof {
namespace {

void forward(Rank& rank) {
  Tensor labels = labels_from(rank, rank.get("ids"));
  const Tensor maxima = largest_logits(rank);
  Tensor totals = store_losses(rank, labels, maxima, sums_of_words(rank, labels, maxima));
  store_mean(rank, totals);
  rank.keep("labels", std::move(labels));
  rank.keep("totals", std::move(totals));
}

void backward(Rank& rank) {
  store_gradients(rank, rank.kept("labels"), rank.kept("totals").slice(0, 1, 1));
}

}  // namespace

const Subject& single_cross_entropy() {
  static const Subject subject{
      .name = "single_cross_entropy",
      .op = "cross_entropy",
      .summary = "the next-word loss on one rank",
      .axes = {},
      .contract = [](const Case& value) { return word_contract(value, {}, {}); },
      .cost = [](const Case&, int) { return traffic_only({}); },
      .unsupported = [](const Case& value) { return foreign_axis(value.placement.mesh, {}); },
      .shard = [](const Case&, const TensorSpec& tensor, int) { return whole(tensor); },
      .forward = forward,
      .backward = backward,
  };
  return subject;
}

}  // namespace shardproof
