// For tests: an honest column- then row-parallel mlp that keeps a contract, and faulty ones.
#pragma once

#include <map>
#include <string>

#include "reference/activation_emulation.h"
#include "reference/emulation.h"
#include "reference/mlp.h"

namespace shardproof {

enum class MlpFault {
  kNone,
  kBiasPerPart,   // b2 added before the reduction on every rank
  kMissingPart,   // one rank left out of the sum of y
  kNoReduceOfDx,  // every rank keeps its part
  kOtherGelu,     // derivative of the other form of gelu
  kSwappedGate,   // act on the wrong branch
};

template <class F>
class MlpEmulation {
 public:
  using Outputs = std::map<std::string, std::vector<double>, std::less<>>;

  MlpEmulation(const Problem& problem, const Contract& contract, Summation summation,
               MlpFault fault, std::uint64_t seed)
      : problem_(problem),
        precision_(contract.precision),
        parts_(contract.partitions.summed),
        arithmetic_(contract.precision, summation, seed),
        fault_(fault) {
    inputs_ = dense_inputs<F>(problem);
    if (fault == MlpFault::kSwappedGate) {
      std::swap(inputs_["w1"], inputs_["wg"]);
      std::swap(inputs_["b1"], inputs_["bg"]);
    }
    if (parts_.empty()) parts_ = arithmetic_.dice().partition(problem.hidden, 1);
  }

  Outputs run() {
    for (const auto& name : {"dw1", "db1", "dwg", "dbg", "dw2"}) outputs_[name];
    std::vector<Dense<F>> y_parts, dx_parts;
    outputs_["dw1"].resize(inputs_["w1"].data.size());
    outputs_["db1"].resize(inputs_["b1"].data.size());
    outputs_["dwg"].resize(inputs_["wg"].data.size());
    outputs_["dbg"].resize(inputs_["bg"].data.size());
    outputs_["dw2"].resize(inputs_["w2"].data.size());
    for (const auto& part : parts_) run_part(part, y_parts, dx_parts);
    if (fault_ == MlpFault::kMissingPart) y_parts.pop_back();
    Dense<F> y = arithmetic_.all_reduce(y_parts);
    if (fault_ != MlpFault::kBiasPerPart) add_bias(y, "b2");
    const Dense<F> dx =
        fault_ == MlpFault::kNoReduceOfDx ? dx_parts[0] : arithmetic_.all_reduce(dx_parts);
    outputs_["y"] = returned(y);
    outputs_["dx"] = returned(dx);
    outputs_["db2"] = returned(column_sums(inputs_["dy"]));
    return outputs_;
  }

 private:
  std::vector<double> returned(const Dense<F>& matrix) const {
    std::vector<double> result;
    for (F value : matrix.data) {
      result.push_back(round_to(precision_.io, static_cast<double>(value)));
    }
    return result;
  }

  void add_bias(Dense<F>& matrix, std::string_view name) {
    const Dense<F>& bias = inputs_[std::string(name)];
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index j = 0; j < matrix.columns; ++j) matrix(i, j) += bias(0, j);
    }
  }

  Dense<F> column_sums(const Dense<F>& matrix) {
    Dense<F> sums(1, matrix.columns);
    for (Index i : arithmetic_.dice().permutation(matrix.rows)) {
      for (Index j = 0; j < matrix.columns; ++j) sums(0, j) += matrix(i, j);
    }
    return sums;
  }

  Dense<F> middle(Dense<F> matrix) const {
    return Arithmetic<F>::rounded(precision_.middle, std::move(matrix));
  }

  Dense<F> projected(const std::vector<Index>& part, const char* weight, const char* bias) {
    Dense<F> z = arithmetic_.product(inputs_["x"], inputs_[weight].taken(part));
    for (Index i = 0; i < z.rows; ++i) {
      for (Index j = 0; j < z.columns; ++j) {
        z(i, j) += inputs_[bias](0, part[static_cast<std::size_t>(j)]);
      }
    }
    return middle(z);
  }

  F value(F z) const { return activated(problem_.activation, z); }

  F slope(F z) const {
    Activation activation = problem_.activation;
    if (fault_ == MlpFault::kOtherGelu) {
      activation = activation == Activation::kGelu ? Activation::kGeluTanh : Activation::kGelu;
    }
    return activation_slope(activation, z);
  }

  void run_part(const std::vector<Index>& part, std::vector<Dense<F>>& y_parts,
                std::vector<Dense<F>>& dx_parts) {
    const bool gated = problem_.gated;
    const Dense<F> z = projected(part, "w1", "b1");
    const Dense<F> up = gated ? projected(part, "wg", "bg") : Dense<F>();
    const Dense<F> w2 = inputs_["w2"].across().taken(part).across();
    const Dense<F> da = middle(arithmetic_.product(inputs_["dy"], w2.across()));
    Dense<F> a(z.rows, z.columns), dz(z.rows, z.columns), dup(z.rows, z.columns);
    for (std::size_t i = 0; i < z.data.size(); ++i) {
      const F u = gated ? up.data[i] : F{1};
      a.data[i] = gated ? value(z.data[i]) * u : value(z.data[i]);
      dz.data[i] = gated ? da.data[i] * u * slope(z.data[i]) : da.data[i] * slope(z.data[i]);
      dup.data[i] = da.data[i] * value(z.data[i]);
    }
    a = middle(a);
    dz = middle(dz);
    dup = middle(dup);
    y_parts.push_back(arithmetic_.product(a, w2));
    if (fault_ == MlpFault::kBiasPerPart) add_bias(y_parts.back(), "b2");
    dx_parts.push_back(arithmetic_.product(dz, inputs_["w1"].taken(part).across()));
    put_columns("dw1", arithmetic_.product(inputs_["x"].across(), dz), part);
    put_columns("db1", column_sums(dz), part);
    put_columns("dw2", arithmetic_.product(a.across(), inputs_["dy"]).across(), part, true);
    if (!gated) return;
    const Dense<F> more = arithmetic_.product(dup, inputs_["wg"].taken(part).across());
    for (std::size_t i = 0; i < more.data.size(); ++i) dx_parts.back().data[i] += more.data[i];
    put_columns("dwg", arithmetic_.product(inputs_["x"].across(), dup), part);
    put_columns("dbg", column_sums(dup), part);
  }

  // Writes the columns of one part into the whole, or into the rows of its transpose.
  void put_columns(const char* name, const Dense<F>& matrix, const std::vector<Index>& part,
                   bool across = false) {
    std::vector<double>& whole = outputs_[name];
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index j = 0; j < matrix.columns; ++j) {
        const Index unit = part[static_cast<std::size_t>(j)];
        const Index at = across ? unit * matrix.rows + i : i * problem_.hidden + unit;
        whole[static_cast<std::size_t>(at)] =
            round_to(precision_.io, static_cast<double>(matrix(i, j)));
      }
    }
  }

  Problem problem_;
  Precision precision_;
  Partition parts_;
  Arithmetic<F> arithmetic_;
  MlpFault fault_;
  DenseTensors<F> inputs_;
  Outputs outputs_;
};

}  // namespace shardproof
