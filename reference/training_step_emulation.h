// For tests: an honest data- and tensor-parallel training step that keeps a contract, and faulty
// ones.
#pragma once

#include <map>
#include <string>

#include "reference/activation_emulation.h"
#include "reference/emulation.h"
#include "reference/training_step.h"

namespace shardproof {

enum class StepFault {
  kNone,
  kOverwrite,        // the last micro-batch's gradients alone
  kMissingRank,      // one rank left out of the sum over tokens
  kSecondUseLost,    // of a tied weight
  kReplicasCounted,  // the bias's squares once for each part of the hidden units
  kOwnShard,         // the norm of one part of the hidden units
  kNoClipping,
  kLowNorm,  // squares added in bf16
};

template <class F>
class StepEmulation {
 public:
  using Outputs = std::map<std::string, std::vector<double>, std::less<>>;

  StepEmulation(const Problem& problem, const Contract& contract, Summation summation,
                StepFault fault, std::uint64_t seed)
      : problem_(problem),
        precision_(contract.precision),
        units_(contract.partitions.summed),
        tokens_(contract.partitions.queries),
        arithmetic_(contract.precision, summation, seed),
        fault_(fault),
        y_(problem.tokens, problem.outputs),
        dx_(problem.tokens, problem.features) {
    inputs_ = dense_inputs<F>(problem);
    if (problem.tied) inputs_["w2"] = inputs_["w1"].across();
    if (units_.empty()) units_ = arithmetic_.dice().partition(problem.hidden, 1);
    if (tokens_.empty()) tokens_ = arithmetic_.dice().partition(problem.tokens, 1);
  }

  Outputs run() {
    std::vector<Sums> parts;
    for (const auto& part : tokens_) parts.push_back(run_rank(part));
    if (fault_ == StepFault::kMissingRank) parts.pop_back();
    Sums sum = reduced(parts);
    const F norm = norm_of_sums(sum);
    const F max_norm = static_cast<F>(effective_max_norm(problem_));
    if (max_norm > 0 && fault_ != StepFault::kNoClipping) {
      const F factor = norm > max_norm ? max_norm / norm : F{1};
      for (Dense<F>* gradient : {&sum.dw1, &sum.dw2, &sum.db2}) {
        for (F& value : gradient->data) value *= factor;
      }
    }
    Outputs outputs{{"y", returned(y_)},
                    {"dx", returned(dx_)},
                    {"dw1", returned(sum.dw1)},
                    {"db2", returned(sum.db2)},
                    {"norm", {static_cast<double>(norm)}}};
    if (!problem_.tied) outputs["dw2"] = returned(sum.dw2);
    return outputs;
  }

 private:
  struct Sums {
    Dense<F> dw1, dw2, db2;
  };

  std::vector<double> returned(const Dense<F>& matrix) const {
    std::vector<double> result;
    for (F value : matrix.data) {
      result.push_back(round_to(precision_.io, static_cast<double>(value)));
    }
    return result;
  }

  static Dense<F> rows_taken(const Dense<F>& matrix, const std::vector<Index>& list) {
    return matrix.across().taken(list).across();
  }

  Dense<F> middle(Dense<F> matrix) const {
    return Arithmetic<F>::rounded(precision_.middle, std::move(matrix));
  }

  Sums zeros() const {
    return {Dense<F>(problem_.features, problem_.hidden),
            Dense<F>(problem_.hidden, problem_.outputs), Dense<F>(1, problem_.outputs)};
  }

  Sums run_rank(const std::vector<Index>& tokens) {
    Sums sums = zeros();
    for (Index which = 0; which < problem_.micro_batches; ++which) {
      const auto [first, count] =
          even_part(static_cast<Index>(tokens.size()), problem_.micro_batches, which);
      if (fault_ == StepFault::kOverwrite) sums = zeros();
      run_micro_batch({tokens.begin() + first, tokens.begin() + first + count}, sums);
    }
    return sums;
  }

  void run_micro_batch(const std::vector<Index>& tokens, Sums& sums) {
    const Dense<F> x = rows_taken(inputs_["x"], tokens);
    const Dense<F> dy = rows_taken(inputs_["dy"], tokens);
    std::vector<Dense<F>> y_parts, dx_parts;
    for (const auto& part : units_) {
      const Dense<F> w2 = rows_taken(inputs_["w2"], part);
      const Dense<F> z = middle(arithmetic_.product(x, inputs_["w1"].taken(part)));
      const Dense<F> da = middle(arithmetic_.product(dy, w2.across()));
      Dense<F> a(z.rows, z.columns), dz(z.rows, z.columns);
      for (std::size_t i = 0; i < z.data.size(); ++i) {
        a.data[i] = activated(problem_.activation, z.data[i]);
        dz.data[i] = da.data[i] * activation_slope(problem_.activation, z.data[i]);
      }
      a = middle(a);
      dz = middle(dz);
      y_parts.push_back(arithmetic_.product(a, w2));
      dx_parts.push_back(arithmetic_.product(dz, inputs_["w1"].taken(part).across()));
      add_columns(sums.dw1, arithmetic_.product(x.across(), dz), part);
      const Dense<F> second = arithmetic_.product(dy.across(), a);  // dw2, transposed
      if (!problem_.tied) add_rows(sums.dw2, second.across(), part);
      if (problem_.tied && fault_ != StepFault::kSecondUseLost) {
        add_columns(sums.dw1, second, part);
      }
    }
    for (Index i = 0; i < dy.rows; ++i) {
      for (Index j = 0; j < dy.columns; ++j) sums.db2(0, j) += dy(i, j);
    }
    Dense<F> y = arithmetic_.all_reduce(y_parts);
    add_row(y, inputs_["b2"]);
    add_rows(y_, y, tokens);
    add_rows(dx_, arithmetic_.all_reduce(dx_parts), tokens);
  }

  static void add_columns(Dense<F>& sum, const Dense<F>& from, const std::vector<Index>& list) {
    for (Index i = 0; i < from.rows; ++i) {
      for (Index j = 0; j < from.columns; ++j) {
        sum(i, list[static_cast<std::size_t>(j)]) += from(i, j);
      }
    }
  }

  static void add_rows(Dense<F>& sum, const Dense<F>& from, const std::vector<Index>& list) {
    for (Index i = 0; i < from.rows; ++i) {
      for (Index j = 0; j < from.columns; ++j) {
        sum(list[static_cast<std::size_t>(i)], j) += from(i, j);
      }
    }
  }

  Sums reduced(const std::vector<Sums>& parts) {
    std::vector<Dense<F>> dw1, dw2, db2;
    for (const Sums& part : parts) {
      dw1.push_back(part.dw1);
      dw2.push_back(part.dw2);
      db2.push_back(part.db2);
    }
    return {arithmetic_.all_reduce(dw1), arithmetic_.all_reduce(dw2), arithmetic_.all_reduce(db2)};
  }

  F sum_of_squares(std::vector<F> values) {
    F sum = 0;
    for (Index i : arithmetic_.dice().permutation(static_cast<Index>(values.size()))) {
      const F value = values[static_cast<std::size_t>(i)];
      sum += value * value;
      if (fault_ == StepFault::kLowNorm) sum = Arithmetic<F>::rounded(DType::kBf16, sum);
    }
    return sum;
  }

  F norm_of_sums(const Sums& sum) {
    std::vector<Dense<F>> parts;
    const F bias = sum_of_squares(sum.db2.data);
    // The replicated bias may join one part before the sum, or follow it.
    const bool joins = arithmetic_.dice().chance(50);
    for (const auto& part : units_) {
      std::vector<F> held = sum.dw1.taken(part).data;
      const Dense<F> second = rows_taken(sum.dw2, part);
      if (!problem_.tied) held.insert(held.end(), second.data.begin(), second.data.end());
      parts.emplace_back(1, 1);
      parts.back()(0, 0) = sum_of_squares(held);
      const bool first = parts.size() == 1;
      if (fault_ == StepFault::kReplicasCounted || (joins && first)) parts.back()(0, 0) += bias;
    }
    if (fault_ == StepFault::kOwnShard) parts.resize(1);
    const F squares = arithmetic_.all_reduce(parts)(0, 0);
    return std::sqrt(joins || fault_ == StepFault::kReplicasCounted ? squares : squares + bias);
  }

  Problem problem_;
  Precision precision_;
  Partition units_;
  Partition tokens_;
  Arithmetic<F> arithmetic_;
  StepFault fault_;
  Dense<F> y_;
  Dense<F> dx_;
  DenseTensors<F> inputs_;
};

}  // namespace shardproof
