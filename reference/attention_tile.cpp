#include "reference/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention_product.h"

namespace shardproof {
namespace {

// Rows `order` of head `head` of a tensor [batch, tokens, heads, width].
template <class T>
void gather_rows(std::span<const T> tensor, const std::vector<Index>& order, Index batch,
                 Index heads, Index head, Index width, std::vector<T>& rows) {
  const Index tokens = static_cast<Index>(order.size());
  for (Index token : order) {
    const T* source = tensor.data() + ((batch * tokens + token) * heads + head) * width;
    rows.insert(rows.end(), source, source + width);
  }
}

template <class T>
void transpose(const std::vector<T>& matrix, Index rows, Index columns, std::vector<T>& result) {
  result.resize(matrix.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] =
          matrix[static_cast<std::size_t>(i * columns + j)];
    }
  }
}

template <class T>
void clear_hidden_rows(const BatchMask& mask, Index width, std::vector<T>& rows) {
  for (std::size_t key = 0; key < mask.queries_of_key.size(); ++key) {
    if (mask.queries_of_key[key] > 0) continue;
    std::fill_n(rows.begin() + static_cast<Index>(key) * width, width, T{0});
  }
}

template <class T>
class TileComputation {
 public:
  TileComputation(const Problem& problem, const AttentionPlan& plan, KeyGroup<T>& group,
                  QueryTile<T>& tile)
      : problem_(problem), plan_(plan), group_(group), tile_(tile), keys_(problem.kv) {}

  void set_bias(std::span<const T> dense) {
    if (problem_.bias == ScoreBias::kNone) return;
    const Index head = group_.kv_head * group_.heads + tile_.head;
    const T slope =
        problem_.bias == ScoreBias::kAlibi ? static_cast<T>(alibi_slope(problem_, head)) : T{0};
    for_each_pair([&](Index row, Index at, Index key) {
      const Index query = plan_.queries.global[static_cast<std::size_t>(tile_.first + row)];
      const Index position = plan_.keys.global[static_cast<std::size_t>(key)];
      tile_.bias[static_cast<std::size_t>(at)] =
          dense.empty()
              ? -slope * static_cast<T>(std::abs(query - position))
              : dense[static_cast<std::size_t>((head * problem_.q + query) * keys_ + position)];
    });
  }

  void set_scores() {
    products_with_keys(group_.q, problem_.dim, group_.k_transposed, tile_.scaled);
    const T scale = static_cast<T>(effective_scale(problem_));
    const T cap = static_cast<T>(effective_softcap(problem_));
    const bool biased = problem_.bias != ScoreBias::kNone;
    for_each_pair([&](Index, Index at, Index) {
      const auto i = static_cast<std::size_t>(at);
      tile_.scaled[i] *= scale;
      tile_.logit[i] = tile_.scaled[i];
      if (cap > 0) {
        tile_.tanh[i] = std::tanh(tile_.scaled[i] / cap);
        tile_.logit[i] = cap * tile_.tanh[i];
      }
      if (biased) tile_.logit[i] += tile_.bias[i];
    });
  }

  void set_probabilities() {
    for (Index row = 0; row < tile_.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      T maximum = -std::numeric_limits<T>::infinity();
      Index count = 0;
      for_each_in_row(row, [&](std::size_t at, bool seen) {
        if (!seen) return;
        maximum = std::max(maximum, tile_.logit[at]);
        ++count;
      });
      T normaliser = 0;
      for_each_in_row(row, [&](std::size_t at, bool seen) {
        tile_.probability[at] = seen ? std::exp(tile_.logit[at] - maximum) : T{0};
        normaliser += tile_.probability[at];
      });
      if (count > 0) {
        for_each_in_row(row, [&](std::size_t at, bool) { tile_.probability[at] /= normaliser; });
      }
      tile_.visible_count[r] = count;
      tile_.maximum[r] = maximum;
      tile_.normaliser[r] = normaliser;
      tile_.lse[r] = count > 0 ? maximum + std::log(normaliser) : maximum;
    }
  }

  void set_out() {
    std::fill(tile_.out.begin(), tile_.out.end(), T{0});
    for (const Segment& s : tile_.segments) {
      add_product(tile_.rows, s.count(), problem_.dim_v,
                  Strided<T>{tile_.probability.data() + s.first, keys_, 1},
                  group_.v.data() + s.first * problem_.dim_v, problem_.dim_v, tile_.out.data(),
                  problem_.dim_v);
    }
  }

  void set_score_gradients() {
    products_with_keys(group_.dout, problem_.dim_v, group_.v_transposed, tile_.dp);
    const bool capped = effective_softcap(problem_) > 0;
    for (Index row = 0; row < tile_.rows; ++row) {
      const auto stacked = static_cast<std::size_t>(tile_.first_row + row);
      const T* dout = group_.dout.data() + (tile_.first_row + row) * problem_.dim_v;
      const T* out = tile_.out.data() + row * problem_.dim_v;
      T delta = 0;
      for (Index d = 0; d < problem_.dim_v; ++d) delta += dout[d] * out[d];
      tile_.delta[static_cast<std::size_t>(row)] = delta;
      const T shift = delta - group_.dlse[stacked];
      for_each_in_row(row, [&](std::size_t at, bool) {
        tile_.inner[at] = tile_.dp[at] - shift;
        tile_.dlogit[at] = tile_.probability[at] * tile_.inner[at];
        tile_.dscore[at] = tile_.dlogit[at];
        if (capped) tile_.dscore[at] *= 1 - tile_.tanh[at] * tile_.tanh[at];
      });
    }
  }

  void add_gradients() {
    const T scale = static_cast<T>(effective_scale(problem_));
    std::fill(tile_.dq.begin(), tile_.dq.end(), T{0});
    // scale * q serves dk, so that the sum needs no scaling of its own.
    std::vector<T> scaled_q(group_.q.begin() + tile_.first_row * problem_.dim,
                            group_.q.begin() + (tile_.first_row + tile_.rows) * problem_.dim);
    for (T& value : scaled_q) value *= scale;
    for (const Segment& s : tile_.segments) {
      add_product(
          tile_.rows, s.count(), problem_.dim, Strided<T>{tile_.dscore.data() + s.first, keys_, 1},
          group_.k.data() + s.first * problem_.dim, problem_.dim, tile_.dq.data(), problem_.dim);
      add_product(s.count(), tile_.rows, problem_.dim,
                  Strided<T>{tile_.dscore.data() + s.first, 1, keys_}, scaled_q.data(),
                  problem_.dim, group_.dk.data() + s.first * problem_.dim, problem_.dim);
      add_product(s.count(), tile_.rows, problem_.dim_v,
                  Strided<T>{tile_.probability.data() + s.first, 1, keys_},
                  group_.dout.data() + tile_.first_row * problem_.dim_v, problem_.dim_v,
                  group_.dv.data() + s.first * problem_.dim_v, problem_.dim_v);
    }
    for (T& value : tile_.dq) value *= scale;
  }

 private:
  template <class Function>
  void for_each_in_row(Index row, Function function) {
    for (const Segment& s : tile_.segments) {
      for (Index key = s.first; key < s.last; ++key) {
        const Index at = row * keys_ + key;
        function(static_cast<std::size_t>(at), tile_.visible[at] != 0);
      }
    }
  }

  template <class Function>
  void for_each_pair(Function function) {
    for (Index row = 0; row < tile_.rows; ++row) {
      for (const Segment& s : tile_.segments) {
        for (Index key = s.first; key < s.last; ++key) function(row, row * keys_ + key, key);
      }
    }
  }

  // result [rows, keys] = rows of `left` times `right_transposed` [width, keys].
  void products_with_keys(const std::vector<T>& left, Index width,
                          const std::vector<T>& right_transposed, std::vector<T>& result) {
    for (const Segment& s : tile_.segments) {
      for (Index row = 0; row < tile_.rows; ++row) {
        std::fill_n(result.begin() + row * keys_ + s.first, s.count(), T{0});
      }
      add_product(tile_.rows, width, s.count(),
                  Strided<T>{left.data() + tile_.first_row * width, width, 1},
                  right_transposed.data() + s.first, keys_, result.data() + s.first, keys_);
    }
  }

  const Problem& problem_;
  const AttentionPlan& plan_;
  KeyGroup<T>& group_;
  QueryTile<T>& tile_;
  Index keys_;
};

}  // namespace

template <class T>
QueryTile<T>::QueryTile(const Problem& problem) {
  const Index most = tile_rows(problem);
  for (std::vector<T>* matrix :
       {&scaled, &tanh, &bias, &logit, &probability, &dp, &inner, &dlogit, &dscore}) {
    matrix->resize(static_cast<std::size_t>(most * problem.kv));
  }
  for (std::vector<T>* row : {&maximum, &normaliser, &lse, &delta}) {
    row->resize(static_cast<std::size_t>(most));
  }
  visible_count.resize(static_cast<std::size_t>(most));
  out.resize(static_cast<std::size_t>(most * problem.dim_v));
  dq.resize(static_cast<std::size_t>(most * problem.dim));
}

template <class T>
void gather_group(const Problem& problem, const AttentionPlan& plan, const BatchMask& mask,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group) {
  const Index batch = group.batch;
  const Index kv_head = group.kv_head;
  for (std::vector<T>* rows : {&group.q, &group.dout, &group.dlse, &group.k, &group.v}) {
    rows->clear();
  }
  group.heads = problem.heads / problem.kv_heads;
  for (Index head = kv_head * group.heads; head < (kv_head + 1) * group.heads; ++head) {
    gather_rows(inputs.q, plan.queries.global, batch, problem.heads, head, problem.dim, group.q);
    gather_rows(inputs.dout, plan.queries.global, batch, problem.heads, head, problem.dim_v,
                group.dout);
    for (Index query : plan.queries.global) {
      const Index at = (batch * problem.heads + head) * problem.q + query;
      group.dlse.push_back(inputs.dlse.empty() ? T{0} : inputs.dlse[static_cast<std::size_t>(at)]);
    }
  }
  gather_rows(inputs.k, plan.keys.global, batch, problem.kv_heads, kv_head, problem.dim, group.k);
  gather_rows(inputs.v, plan.keys.global, batch, problem.kv_heads, kv_head, problem.dim_v, group.v);
  clear_hidden_rows(mask, problem.dim, group.k);
  clear_hidden_rows(mask, problem.dim_v, group.v);
  transpose(group.k, problem.kv, problem.dim, group.k_transposed);
  transpose(group.v, problem.kv, problem.dim_v, group.v_transposed);
  group.dk.assign(group.k.size(), T{0});
  group.dv.assign(group.v.size(), T{0});
}

template <class T>
void compute_tile(const Problem& problem, const AttentionPlan& plan,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group, QueryTile<T>& tile) {
  TileComputation<T> computation(problem, plan, group, tile);
  computation.set_bias(inputs.bias);
  computation.set_scores();
  computation.set_probabilities();
  computation.set_out();
  computation.set_score_gradients();
  computation.add_gradients();
}

template struct QueryTile<double>;
template struct QueryTile<long double>;
template void gather_group(const Problem&, const AttentionPlan&, const BatchMask&,
                           const AttentionInputs<double>&, KeyGroup<double>&);
template void gather_group(const Problem&, const AttentionPlan&, const BatchMask&,
                           const AttentionInputs<long double>&, KeyGroup<long double>&);
template void compute_tile(const Problem&, const AttentionPlan&, const AttentionInputs<double>&,
                           KeyGroup<double>&, QueryTile<double>&);
template void compute_tile(const Problem&, const AttentionPlan&,
                           const AttentionInputs<long double>&, KeyGroup<long double>&,
                           QueryTile<long double>&);

}  // namespace shardproof
