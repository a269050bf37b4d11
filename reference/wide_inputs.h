// For tests: the inputs of a problem in long double, and gradients against finite differences.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "harness/model/element.h"

namespace shardproof {

using Wide = std::vector<long double>;
using Inputs = std::map<std::string, Wide, std::less<>>;

inline Inputs wide_inputs_of(const Problem& p) {
  Inputs inputs;
  for (const TensorSpec& spec : p.op->tensors(p)) {
    if (spec.kind != TensorKind::kInput && spec.kind != TensorKind::kUpstream) continue;
    const std::vector<double> values = whole_tensor(p, spec);
    inputs[std::string(spec.name)] = {values.begin(), values.end()};
  }
  return inputs;
}

// `loss()` reads `values`; every element, or every `stride`-th, is moved by `h` both ways.
template <class Loss>
void expect_differences(Wide& values, const std::vector<double>& gradient, Loss loss, long double h,
                        double tolerance, const std::string& what, std::size_t stride = 1) {
  ASSERT_EQ(gradient.size(), values.size()) << what;
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const long double at = values[i];
    values[i] = at + h;
    const long double above = loss();
    values[i] = at - h;
    const long double below = loss();
    values[i] = at;
    EXPECT_NEAR(gradient[i], static_cast<double>((above - below) / (2 * h)), tolerance)
        << what << " " << i;
  }
}

}  // namespace shardproof
