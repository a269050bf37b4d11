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
    std::map<std::string, std::vector<Dense<F>>> shared;
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

  static void add_row(Dense<F>& matrix, const Dense<F>& row) {
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index j = 0; j < matrix.columns; ++j) matrix(i, j) += row(0, j);
    }
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

  static Dense<F> rows(const Dense<F>& matrix, Index first, Index count) {
    Dense<F> result(count, matrix.columns);
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < matrix.columns; ++j) result(i, j) = matrix(first + i, j);
    }
    return result;
  }

  static void put_rows(Dense<F>& target, Index first, const Dense<F>& from) {
    for (Index i = 0; i < from.rows; ++i) {
      for (Index j = 0; j < from.columns; ++j) target(first + i, j) += from(i, j);
    }
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

  Head attention(const Dense<F>& q, const Dense<F>& k, const Dense<F>& v, const Dense<F>& dout,
                 Index batch, Index head) {
    const Logits at = logits(q, k, batch, head);
    const Index n = q.rows;
    Dense<F> weights(n, n), probability(n, n), stored(n, n);
    std::vector<F> normalizer(static_cast<std::size_t>(n)), lse(normalizer);
    for (Index i = 0; i < n; ++i) {
      F maximum = -static_cast<F>(kUnbounded);
      for (Index j = 0; j < n; ++j) maximum = std::max(maximum, at.z(i, j));
      F sum = 0;
      for (Index j = 0; j < n; ++j) {
        const F e = std::isinf(at.z(i, j)) ? F{0} : std::exp(at.z(i, j) - maximum);
        sum += e;
        weights(i, j) = rounded(precision_.probability, e);
      }
      normalizer[static_cast<std::size_t>(i)] = sum;
      lse[static_cast<std::size_t>(i)] = maximum + std::log(sum);
      for (Index j = 0; j < n; ++j) {
        if (std::isinf(at.z(i, j))) continue;
        probability(i, j) = std::exp(at.z(i, j) - lse[static_cast<std::size_t>(i)]);
        stored(i, j) = rounded(precision_.probability, probability(i, j));
      }
    }
    Head result;
    result.out = arithmetic_.product(weights, v);
    for (Index i = 0; i < n; ++i) {
      const F sum = normalizer[static_cast<std::size_t>(i)];
      for (Index d = 0; d < v.columns; ++d) result.out(i, d) = sum > 0 ? result.out(i, d) / sum : 0;
    }
    const Dense<F> saved = Arithmetic<F>::rounded(precision_.saved_out, result.out);
    result.out = middle(result.out);
    result.dv = arithmetic_.product(stored.across(), dout);
    const Dense<F> dp = arithmetic_.product(dout, v.across());
    const auto scale = static_cast<F>(effective_scale(p_));
    Dense<F> ds(n, n);
    for (Index i = 0; i < n; ++i) {
      F delta = 0;
      for (Index d = 0; d < v.columns; ++d) {
        delta += dout(i, d) * saved(i, d);
      }
      for (Index j = 0; j < n; ++j) {
        ds(i, j) = rounded(precision_.score_gradient,
                           probability(i, j) * (dp(i, j) - delta) * at.slope(i, j));
      }
    }
    result.dq = arithmetic_.product(ds, k);
    result.dk = arithmetic_.product(ds.across(), q);
    for (F& value : result.dq.data) value *= scale;
    if (fault_ != LayerFault::kUnscaledGradient) {
      for (F& value : result.dk.data) value *= scale;
    }
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

  void run_part(const std::vector<Index>& heads, std::vector<Dense<F>>& y_parts,
                std::vector<Dense<F>>& dx_parts,
                std::map<std::string, std::vector<Dense<F>>>& shared) {
    const Index group = p_.heads / p_.kv_heads;
    const Index tokens = inputs_["x"].rows;
    Dense<F> y(tokens, p_.features), dx(tokens, p_.features);
    Dense<F> dk(tokens, p_.kv_heads * p_.dim), dv(tokens, p_.kv_heads * p_.dim_v);
    std::vector<bool> used(static_cast<std::size_t>(p_.kv_heads));
    for (Index head : heads) {
      const Index kv = head / group;
      used[static_cast<std::size_t>(kv)] = true;
      const Dense<F> q = projected("wq", "bq", head, p_.dim);
      const Dense<F> k = projected("wk", "bk", kv, p_.dim);
      const Dense<F> v = projected("wv", "bv", kv, p_.dim_v);
      const Dense<F> wo = inputs_["wo"].across().taken(columns(head, p_.dim_v)).across();
      const Dense<F> dout = middle(arithmetic_.product(inputs_["dy"], wo.across()));
      Head whole{Dense<F>(tokens, p_.dim_v), Dense<F>(tokens, p_.dim), Dense<F>(tokens, p_.dim),
                 Dense<F>(tokens, p_.dim_v)};
      for (Index b = 0; b < p_.batch; ++b) {
        const Index first = b * p_.q;
        const Head one = attention(rows(q, first, p_.q), rows(k, first, p_.q), rows(v, first, p_.q),
                                   rows(dout, first, p_.q), b, head);
        put_rows(whole.out, first, one.out);
        put_rows(whole.dq, first, one.dq);
        put_rows(whole.dk, first, one.dk);
        put_rows(whole.dv, first, one.dv);
      }
      put_rows(y, 0, arithmetic_.product(whole.out, wo));
      const Dense<F> dwo = arithmetic_.product(whole.out.across(), inputs_["dy"]);
      for (std::size_t i = 0; i < dwo.data.size(); ++i) {
        outputs_["dwo"][static_cast<std::size_t>(head * p_.dim_v * p_.features) + i] =
            round_to(precision_.io, static_cast<double>(dwo.data[i]));
      }
      const Dense<F> dq = middle(whole.dq);
      put("dwq", arithmetic_.product(inputs_["x"].across(), dq), head, p_.dim);
      put("dbq", column_sums(dq), head, p_.dim);
      put_rows(dx, 0, arithmetic_.product(dq, inputs_["wq"].taken(columns(head, p_.dim)).across()));
      add_columns(dk, whole.dk, kv, p_.dim);
      add_columns(dv, whole.dv, kv, p_.dim_v);
    }
    dk = middle(dk);
    dv = middle(dv);
    Dense<F> dwk(p_.features, dk.columns), dbk(1, dk.columns);
    Dense<F> dwv(p_.features, dv.columns), dbv(1, dv.columns);
    for (Index kv = 0; kv < p_.kv_heads; ++kv) {
      if (!used[static_cast<std::size_t>(kv)]) continue;
      const Dense<F> k_rows = dk.taken(columns(kv, p_.dim));
      const Dense<F> v_rows = dv.taken(columns(kv, p_.dim_v));
      add_columns(dwk, arithmetic_.product(inputs_["x"].across(), k_rows), kv, p_.dim);
      add_columns(dbk, column_sums(k_rows), kv, p_.dim);
      add_columns(dwv, arithmetic_.product(inputs_["x"].across(), v_rows), kv, p_.dim_v);
      add_columns(dbv, column_sums(v_rows), kv, p_.dim_v);
      put_rows(dx, 0,
               arithmetic_.product(k_rows, inputs_["wk"].taken(columns(kv, p_.dim)).across()));
      put_rows(dx, 0,
               arithmetic_.product(v_rows, inputs_["wv"].taken(columns(kv, p_.dim_v)).across()));
    }
    shared["dwk"].push_back(dwk);
    shared["dbk"].push_back(dbk);
    shared["dwv"].push_back(dwv);
    shared["dbv"].push_back(dbv);
    if (fault_ == LayerFault::kBiasPerPart) add_row(y, inputs_["bo"]);
    y_parts.push_back(y);
    dx_parts.push_back(dx);
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
