// Operator: what is computed. Declares its tensors, repairs and checks a problem, and evaluates the
// answer in float64 (long double for f64 problems) together with an error bound per element.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/contract.h"
#include "harness/model/problem.h"

namespace shardproof {

// What a tensor means, so that a data recipe can treat it accordingly.
enum class Role {
  kQuery,
  kKey,
  kValue,
  kScoreBias,
  kActivation,
  kWeight,
  kBias,
  kUpstream,
  kWord,  // the number of a word; -1: none
};

enum class TensorKind {
  kInput,
  kUpstream,  // gradient of the loss with respect to an output; given
  kOutput,
  kGradient,  // gradient of the loss with respect to an input; computed
};

struct TensorSpec {
  std::string_view name;
  TensorKind kind = TensorKind::kInput;
  Role role = Role::kActivation;
  DType dtype = DType::kF32;
  Shape shape;
  int token_dimension = -1;  // the dimension that counts tokens; -1: none
  // When every input and upstream gradient is multiplied by c^value_power, so are the results.
  int value_power = 0;
};

// The answer for one output or gradient, row-major as its spec says.
struct ExpectedTensor {
  TensorSpec spec;
  std::vector<double> want;
  std::vector<double> worst;   // T1: exceeded means outside the contract, no probability involved
  std::vector<double> likely;  // T2 <= T1: exceeded means outside unless 6-sigma roundings conspire
  std::vector<double> sigma;   // model standard deviation of the error; empty when not computed
  bool rms_applies = false;    // whether the preconditions of the RMS test T3 hold
  double terms = 0;  // root of the mean sum of squares of the terms that an element sums; 0: the
                     // values themselves tell, since the terms do not cancel
};

struct Expected {
  std::vector<ExpectedTensor> tensors;

  const ExpectedTensor* find(std::string_view name) const;
};

// kValues: `want` only. kLikely: T2 and sigma, T1 left equal to infinity. kAll: T1 too.
enum class Effort { kValues, kLikely, kAll };

// A known way to be wrong. The error of a run is compared, element by element, with what the fault
// would change if nothing were rounded: so a fault far below one rounding shows (numerics, "matched
// filter").
struct Hypothesis {
  std::string_view says;  // the fault in one line
  bool (*concerns)(const Problem& problem);

  // The tensors that come out otherwise, only `spec` and `want` of them. `answer`: the right one.
  std::vector<ExpectedTensor> (*alternative)(const Problem& problem, const Contract& contract,
                                             const Expected& answer);
};

struct Operator {
  std::string_view name;
  std::string_view summary;
  std::span<const std::string_view> keys;  // the text keys it uses, in printing order

  // Every tensor: inputs, upstream gradients, outputs, gradients, in this order.
  std::vector<TensorSpec> (*tensors)(const Problem& problem);

  // Turns any drawn problem into a valid one. Total and idempotent; changes as little as it can.
  void (*repair)(Problem& problem);

  // Which rule the problem breaks, or an empty string.
  std::string (*broken_rule)(const Problem& problem);

  Expected (*evaluate)(const Problem& problem, const Contract& contract, Effort effort);

  // Multiply-adds of the forward and backward pass, to set time limits and virtual time.
  double (*work)(const Problem& problem);

  std::span<const Hypothesis> hypotheses{};
};

}  // namespace shardproof
