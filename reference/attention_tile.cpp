#include "reference/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention_product.h"
#include "reference/eight.h"

namespace shardproof {
namespace {

// The functions of T: those of <cmath>, or of eight.h.
using std::exp, std::log, std::max, std::tanh;

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
    const double softcap = effective_softcap(problem_);
    const T cap = static_cast<T>(softcap);
    const bool biased = problem_.bias != ScoreBias::kNone;
    for_each_pair([&](Index, Index at, Index) {
      const auto i = static_cast<std::size_t>(at);
      tile_.scaled[i] *= scale;
      tile_.logit[i] = tile_.scaled[i];
      if (softcap > 0) {
        tile_.tanh[i] = tanh(tile_.scaled[i] / cap);
        tile_.logit[i] = cap * tile_.tanh[i];
      }
      if (biased) tile_.logit[i] += tile_.bias[i];
    });
  }

  // A sink is one more logit of every row.
  void set_probabilities() {
    const bool sunk = !group_.sink.empty();
    const T lowest = static_cast<T>(-std::numeric_limits<double>::infinity());
    const T sink = sunk ? group_.sink[static_cast<std::size_t>(tile_.head)] : lowest;
    for (Index row = 0; row < tile_.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      T maximum = sink;
      Index count = 0;
      for_each_in_row(row, [&](std::size_t at, bool seen) {
        if (!seen) return;
        maximum = max(maximum, tile_.logit[at]);
        ++count;
      });
      const T sink_term = sunk ? T(exp(sink - maximum)) : T{0};
      T normaliser = sink_term;
      for_each_in_row(row, [&](std::size_t at, bool seen) {
        tile_.probability[at] = seen ? T(exp(tile_.logit[at] - maximum)) : T{0};
        normaliser += tile_.probability[at];
      });
      if (count > 0) {
        for_each_in_row(row, [&](std::size_t at, bool) { tile_.probability[at] /= normaliser; });
      }
      tile_.visible_count[r] = count;
      tile_.maximum[r] = maximum;
      tile_.normaliser[r] = normaliser;
      tile_.lse[r] = count > 0 ? T(maximum + log(normaliser)) : maximum;
      tile_.sink_probability[r] = sunk ? T(sink_term / normaliser) : T{0};
    }
  }

  void set_dropout() {
    if (tile_.factor.empty()) return;
    const Index head = group_.kv_head * group_.heads + tile_.head;
    const T factor = static_cast<T>(dropout_factor(problem_));
    for_each_pair([&](Index row, Index at, Index key) {
      const auto i = static_cast<std::size_t>(at);
      const bool kept = is_kept(problem_.seed, problem_.dropout, group_.batch, head,
                                plan_.queries.global[static_cast<std::size_t>(tile_.first + row)],
                                plan_.keys.global[static_cast<std::size_t>(key)]);
      tile_.factor[i] = kept ? factor : T{0};
      tile_.dropped[i] = tile_.probability[i] * tile_.factor[i];
    });
  }

  void set_out() {
    std::fill(tile_.out.begin(), tile_.out.end(), T{0});
    for (const Segment& s : tile_.segments) {
      add_product(tile_.rows, s.count(), problem_.dim_v,
                  Strided<T>{tile_.weights().data() + s.first, keys_, 1},
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
      T delta{0};
      for (Index d = 0; d < problem_.dim_v; ++d) delta += dout[d] * out[d];
      tile_.delta[static_cast<std::size_t>(row)] = delta;
      const T shift = delta - group_.dlse[stacked];
      // The sink's dP is 0.
      tile_.dsink[static_cast<std::size_t>(row)] =
          T{0} - tile_.sink_probability[static_cast<std::size_t>(row)] * shift;
      for_each_in_row(row, [&](std::size_t at, bool) {
        if (!tile_.factor.empty()) tile_.dp[at] *= tile_.factor[at];
        tile_.inner[at] = tile_.dp[at] - shift;
        tile_.dlogit[at] = tile_.probability[at] * tile_.inner[at];
        tile_.dscore[at] = tile_.dlogit[at];
        if (capped) tile_.dscore[at] *= T{1} - tile_.tanh[at] * tile_.tanh[at];
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
                  Strided<T>{tile_.weights().data() + s.first, 1, keys_},
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
  if (problem.dropout > 0) {
    for (std::vector<T>* matrix : {&factor, &dropped}) {
      matrix->resize(static_cast<std::size_t>(most * problem.kv));
    }
  }
  for (std::vector<T>* row : {&maximum, &normaliser, &sink_probability, &lse, &delta, &dsink}) {
    row->resize(static_cast<std::size_t>(most));
  }
  visible_count.resize(static_cast<std::size_t>(most));
  out.resize(static_cast<std::size_t>(most * problem.dim_v));
  dq.resize(static_cast<std::size_t>(most * problem.dim));
}

template <class T>
void compute_tile(const Problem& problem, const AttentionPlan& plan,
                  const AttentionInputs<T>& inputs, KeyGroup<T>& group, QueryTile<T>& tile) {
  TileComputation<T> computation(problem, plan, group, tile);
  computation.set_bias(inputs.bias);
  computation.set_scores();
  computation.set_probabilities();
  computation.set_dropout();
  computation.set_out();
  computation.set_score_gradients();
  computation.add_gradients();
}

template struct QueryTile<double>;
template struct QueryTile<long double>;
template struct QueryTile<Eight>;
template void compute_tile(const Problem&, const AttentionPlan&, const AttentionInputs<double>&,
                           KeyGroup<double>&, QueryTile<double>&);
template void compute_tile(const Problem&, const AttentionPlan&,
                           const AttentionInputs<long double>&, KeyGroup<long double>&,
                           QueryTile<long double>&);
template void compute_tile(const Problem&, const AttentionPlan&, const AttentionInputs<Eight>&,
                           KeyGroup<Eight>&, QueryTile<Eight>&);

}  // namespace shardproof
