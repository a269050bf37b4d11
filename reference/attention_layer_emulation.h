// For tests: an honest attention layer with its heads cut into parts, and faulty ones.
#pragma once

#include <map>
#include <string>

#include "harness/model/bound.h"
#include "reference/attention_layer.h"
#include "reference/emulation.h"

namespace shardproof {

enum class LayerFault {
  kNone,
  kMissingPart,       // one part left out of the sum of y
  kNoReduceOfDx,      // only one part's share of dx
  kLostShare,         // shared key/value heads: the last part's gradient replaces the sum
  kBiasPerPart,       // bo added by every part
  kUnscaledGradient,  // dk without the factor on q.k
};

template <class F>
class LayerEmulation {
 public:
  using Outputs = std::map<std::string, std::vector<double>, std::less<>>;

  LayerEmulation(const Problem& problem, const Contract& contract, Summation summation,
                 LayerFault fault, std::uint64_t seed)
      : p_(problem),
        precision_(contract.precision),
        parts_(contract.partitions.summed),
        arithmetic_(contract.precision, summation, seed),
        fault_(fault) {
    const Index tokens = p_.batch * p_.q;
    read("x", tokens, p_.features);
    read("dy", tokens, p_.features);
    read("wq", p_.features, p_.heads * p_.dim);
    read("bq", 1, p_.heads * p_.dim);
    read("wk", p_.features, p_.kv_heads * p_.dim);
    read("bk", 1, p_.kv_heads * p_.dim);
    read("wv", p_.features, p_.kv_heads * p_.dim_v);
    read("bv", 1, p_.kv_heads * p_.dim_v);
    read("wo", p_.heads * p_.dim_v, p_.features);
    read("bo", 1, p_.features);
  }

  Outputs run() {
    for (const auto& [name, input] : inputs_) {
      if (name != "dy") outputs_["d" + name].resize(input.data.size());
    }
    std::vector<Dense<F>> y, dx;
    Shares shared;
    for (const auto& heads : parts_) run_part(heads, y, dx, shared);
    if (fault_ == LayerFault::kMissingPart) y.pop_back();
    if (fault_ == LayerFault::kNoReduceOfDx) dx.resize(1);
    Dense<F> sum = arithmetic_.all_reduce(y);
    if (fault_ != LayerFault::kBiasPerPart) add_row(sum, inputs_["bo"]);
    outputs_["y"] = returned(sum);
    outputs_["dx"] = returned(arithmetic_.all_reduce(dx));
    outputs_["dbo"] = returned(column_sums(inputs_["dy"]));
    for (auto& [name, parts] : shared) {
      if (fault_ == LayerFault::kLostShare) parts = {parts.back()};
      outputs_[name] = returned(arithmetic_.all_reduce(parts));
    }
    return outputs_;
  }

 private:
  void read(const std::string& name, Index rows, Index columns) {
    for (const TensorSpec& spec : p_.op->tensors(p_)) {
      if (spec.name != name) continue;
      Dense<F> value(rows, columns);
      const std::vector<double> data = whole_tensor(p_, spec);
      value.data.assign(data.begin(), data.end());
      inputs_[name] = std::move(value);
    }
  }

  static F rounded(DType type, F value) { return Arithmetic<F>::rounded(type, value); }
  Dense<F> middle(const Dense<F>& matrix) const {
    return Arithmetic<F>::rounded(precision_.middle, matrix);
  }

  std::vector<double> returned(const Dense<F>& matrix) const {
    std::vector<double> result;
    for (F value : matrix.data) {
      result.push_back(round_to(precision_.io, static_cast<double>(value)));
    }
    return result;
  }

  Dense<F> column_sums(const Dense<F>& matrix) {
    Dense<F> sums(1, matrix.columns);
    for (Index i : arithmetic_.dice().permutation(matrix.rows)) {
      for (Index j = 0; j < matrix.columns; ++j) sums(0, j) += matrix(i, j);
    }
    return sums;
  }

  static std::vector<Index> columns(Index head, Index width) {
    std::vector<Index> result;
    for (Index d = 0; d < width; ++d) result.push_back(head * width + d);
    return result;
  }

  Dense<F> projected(const char* w, const char* b, Index head, Index width) {
    const auto list = columns(head, width);
    Dense<F> result = arithmetic_.product(inputs_["x"], inputs_[w].taken(list));
    add_row(result, inputs_[b].taken(list));
    return middle(result);
  }

  // One head of one batch entry.
  struct Head {
    Dense<F> out, dq, dk, dv;
  };

  struct Logits {
    Dense<F> z, slope;
  };

  Logits logits(const Dense<F>& q, const Dense<F>& k, Index batch, Index head) {
    const auto scale = static_cast<F>(effective_scale(p_));
    const auto cap = static_cast<F>(effective_softcap(p_));
    Dense<F> z = arithmetic_.product(q, k.across());
    Dense<F> slope(z.rows, z.columns);
    for (Index i = 0; i < z.rows; ++i) {
      for (Index j = 0; j < z.columns; ++j) {
        F x = scale * z(i, j);
        slope(i, j) = 1;
        if (cap != 0) {
          const F t = std::tanh(x / cap);
          x = cap * t;
          slope(i, j) = 1 - t * t;
        }
        if (p_.bias == ScoreBias::kAlibi) {
          x -= static_cast<F>(alibi_slope(p_, head)) * static_cast<F>(std::abs(i - j));
        }
        z(i, j) = visible(p_, batch, i, j) ? x : -static_cast<F>(kUnbounded);
      }
    }
    return {z, slope};
  }

  // exp(z - maximum) and its row sums, P recomputed from lse, and P as products read it.
  struct Softmax {
    Dense<F> weights, probability, stored;
    std::vector<F> normalizer;
  };

  Softmax softmax(const Dense<F>& z) {
    const Index n = z.rows;
    Softmax s{Dense<F>(n, n), Dense<F>(n, n), Dense<F>(n, n), {}};
    for (Index i = 0; i < n; ++i) {
      F maximum = -static_cast<F>(kUnbounded);
      for (Index j = 0; j < n; ++j) maximum = std::max(maximum, z(i, j));
      F sum = 0;
      for (Index j = 0; j < n; ++j) {
        const F e = std::isinf(z(i, j)) ? F{0} : std::exp(z(i, j) - maximum);
        sum += e;
        s.weights(i, j) = rounded(precision_.probability, e);
      }
      s.normalizer.push_back(sum);
      const F lse = maximum + std::log(sum);
      for (Index j = 0; j < n; ++j) {
        if (std::isinf(z(i, j))) continue;
        s.probability(i, j) = std::exp(z(i, j) - lse);
        s.stored(i, j) = rounded(precision_.probability, s.probability(i, j));
      }
    }
    return s;
  }

  Head attention(const Dense<F>& q, const Dense<F>& k, const Dense<F>& v, const Dense<F>& dout,
                 Index batch, Index head) {
    const Logits at = logits(q, k, batch, head);
    const Softmax s = softmax(at.z);
    Head result;
    result.out = arithmetic_.product(s.weights, v);
    for (Index i = 0; i < q.rows; ++i) {
      const F sum = s.normalizer[static_cast<std::size_t>(i)];
      for (Index d = 0; d < v.columns; ++d) result.out(i, d) = sum > 0 ? result.out(i, d) / sum : 0;
    }
    const Dense<F> saved = Arithmetic<F>::rounded(precision_.saved_out, result.out);
    result.out = middle(result.out);
    result.dv = arithmetic_.product(s.stored.across(), dout);
    const Dense<F> dp = arithmetic_.product(dout, v.across());
    Dense<F> ds(q.rows, q.rows);
    for (Index i = 0; i < q.rows; ++i) {
      F delta = 0;
      for (Index d = 0; d < v.columns; ++d) delta += dout(i, d) * saved(i, d);
      for (Index j = 0; j < q.rows; ++j) {
        ds(i, j) = rounded(precision_.score_gradient,
                           s.probability(i, j) * (dp(i, j) - delta) * at.slope(i, j));
      }
    }
    const auto scale = static_cast<F>(effective_scale(p_));
    result.dq = arithmetic_.product(ds, k);
    result.dk = arithmetic_.product(ds.across(), q);
    for (F& value : result.dq.data) value *= scale;
    if (fault_ == LayerFault::kUnscaledGradient) return result;
    for (F& value : result.dk.data) value *= scale;
    return result;
  }

  void put(const std::string& name, const Dense<F>& matrix, Index head, Index width) {
    const Index total = inputs_[name.substr(1)].columns;
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index d = 0; d < width; ++d) {
        outputs_[name][static_cast<std::size_t>(i * total + head * width + d)] =
            round_to(precision_.io, static_cast<double>(matrix(i, d)));
      }
    }
  }

  static void add_columns(Dense<F>& target, const Dense<F>& from, Index head, Index width) {
    for (Index i = 0; i < from.rows; ++i) {
      for (Index d = 0; d < width; ++d) target(i, head * width + d) += from(i, d);
    }
  }

  // The sums that one part contributes.
  struct Sums {
    Dense<F> y, dx, dk, dv;
  };

  void run_head(Index head, Sums& sums) {
    const Index kv = head / (p_.heads / p_.kv_heads);
    const Index tokens = inputs_["x"].rows;
    const Dense<F> q = projected("wq", "bq", head, p_.dim);
    const Dense<F> k = projected("wk", "bk", kv, p_.dim);
    const Dense<F> v = projected("wv", "bv", kv, p_.dim_v);
    const Dense<F> wo = inputs_["wo"].across().taken(columns(head, p_.dim_v)).across();
    const Dense<F> dout = middle(arithmetic_.product(inputs_["dy"], wo.across()));
    Head whole{Dense<F>(tokens, p_.dim_v), Dense<F>(tokens, p_.dim), Dense<F>(tokens, p_.dim),
               Dense<F>(tokens, p_.dim_v)};
    for (Index b = 0; b < p_.batch; ++b) {
      const auto of_batch = [&](const Dense<F>& m) { return rows(m, b * p_.q, p_.q); };
      const Head one = attention(of_batch(q), of_batch(k), of_batch(v), of_batch(dout), b, head);
      put_rows(whole.out, b * p_.q, one.out);
      put_rows(whole.dq, b * p_.q, one.dq);
      put_rows(whole.dk, b * p_.q, one.dk);
      put_rows(whole.dv, b * p_.q, one.dv);
    }
    put_rows(sums.y, 0, arithmetic_.product(whole.out, wo));
    const auto dwo = returned(arithmetic_.product(whole.out.across(), inputs_["dy"]));
    std::copy(dwo.begin(), dwo.end(), outputs_["dwo"].begin() + head * p_.dim_v * p_.features);
    const Dense<F> dq = middle(whole.dq);
    put("dwq", arithmetic_.product(inputs_["x"].across(), dq), head, p_.dim);
    put("dbq", column_sums(dq), head, p_.dim);
    const Dense<F> wq = inputs_["wq"].taken(columns(head, p_.dim));
    put_rows(sums.dx, 0, arithmetic_.product(dq, wq.across()));
    add_columns(sums.dk, whole.dk, kv, p_.dim);
    add_columns(sums.dv, whole.dv, kv, p_.dim_v);
  }

  using Shares = std::map<std::string, std::vector<Dense<F>>>;

  // What one part contributes to the gradients of wk and bk, or of wv and bv, and to dx.
  void add_shares(char name, const Dense<F>& gradient, Index width, Dense<F>& dx, Shares& shares) {
    const Dense<F> stored = middle(gradient);
    const Dense<F>& weight = inputs_[std::string("w") + name];
    shares[std::string("dw") + name].push_back(arithmetic_.product(inputs_["x"].across(), stored));
    shares[std::string("db") + name].push_back(column_sums(stored));
    for (Index kv = 0; kv < p_.kv_heads; ++kv) {
      const auto list = columns(kv, width);
      put_rows(dx, 0, arithmetic_.product(stored.taken(list), weight.taken(list).across()));
    }
  }

  void run_part(const std::vector<Index>& heads, std::vector<Dense<F>>& y,
                std::vector<Dense<F>>& dx, Shares& shares) {
    const Index tokens = inputs_["x"].rows;
    Sums sums{Dense<F>(tokens, p_.features), Dense<F>(tokens, p_.features),
              Dense<F>(tokens, p_.kv_heads * p_.dim), Dense<F>(tokens, p_.kv_heads * p_.dim_v)};
    for (Index head : heads) run_head(head, sums);
    add_shares('k', sums.dk, p_.dim, sums.dx, shares);
    add_shares('v', sums.dv, p_.dim_v, sums.dx, shares);
    if (fault_ == LayerFault::kBiasPerPart) add_row(sums.y, inputs_["bo"]);
    y.push_back(sums.y);
    dx.push_back(sums.dx);
  }

  Problem p_;
  Precision precision_;
  Partition parts_;
  Arithmetic<F> arithmetic_;
  LayerFault fault_;
  std::map<std::string, Dense<F>, std::less<>> inputs_;
  Outputs outputs_;
};

}  // namespace shardproof
