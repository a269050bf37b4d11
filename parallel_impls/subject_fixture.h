// For tests of subjects: runs a case in the simulated world and compares every tensor with plain
// double arithmetic written here, which shares nothing with the subjects but inputs and masks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/model/element.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "reference/operators.h"

namespace shardproof {

// A tensor of doubles, by name; at() takes coordinates.
struct Plain {
  Shape shape;
  std::vector<double> values;

  explicit Plain(const Shape& extents = {}, double value = 0)
      : shape(extents), values(static_cast<std::size_t>(extents.elements()), value) {}

  template <typename... Indices>
  double& at(Indices... indices) {
    const Index list[]{indices...};
    Index flat = 0;
    for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + list[d];
    return values[static_cast<std::size_t>(flat)];
  }
};
using Tensors = std::map<std::string, Plain, std::less<>>;

inline const Subject& subject_named(std::string_view name) {
  for (const Subject* subject : all_subjects()) {
    if (subject->name == name) return *subject;
  }
  throw std::invalid_argument("no such subject");
}

inline const Operator& operator_named(std::string_view name) {
  for (const Operator* candidate : all_operators()) {
    if (candidate->name == name) return *candidate;
  }
  throw std::invalid_argument("no such operator");
}

inline std::vector<Views> every_views() {
  std::vector<Views> views;
  for (std::size_t i = 0; i < names_of_views().size(); ++i) views.push_back(static_cast<Views>(i));
  return views;
}

inline const Mask* mask_named(std::string_view name) {
  for (const Mask* mask : all_masks()) {
    if (mask->name == name) return mask;
  }
  throw std::invalid_argument("no such mask");
}

inline Case case_for(std::string_view subject, Problem problem, Mesh mesh,
                     Layout layout = Layout::kContiguous) {
  problem.op = &operator_named(subject_named(subject).op);
  if (problem.mask.mask == nullptr) problem.mask.mask = mask_named("none");
  Case value{problem, {}};
  value.placement.subject = subject;
  value.placement.mesh = std::move(mesh);
  value.placement.layout = layout;
  return value;
}

// Inputs and upstream gradients as the ranks see them.
inline Tensors inputs_of(const Problem& problem) {
  Tensors tensors;
  for (const TensorSpec& spec : problem.op->tensors(problem)) {
    if (spec.kind != TensorKind::kInput && spec.kind != TensorKind::kUpstream) continue;
    Plain& tensor = tensors[std::string(spec.name)];
    tensor.shape = spec.shape;
    tensor.values = whole_tensor(problem, spec);
  }
  return tensors;
}

inline Outcome run_case(const Case& value, const RunOptions& options = {}) {
  static const std::unique_ptr<World> world = all_worlds().at(0).make(all_devices());
  return world->run(value, subject_named(value.placement.subject), options);
}

// How far a correct subject may be off, relative to the tensor's largest element (some tensors are
// differences of numbers around 1).
inline double allowed_error(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-12;
    case DType::kF32:
      return 2e-5;
    case DType::kTf32:
    case DType::kF16:
      return 1e-2;
    case DType::kBf16:
      return 6e-2;
  }
  return 0;
}

// Runs the case; every output and gradient must be that of `want`, and nothing else be wrong.
inline void expect_computes(const Case& value, Tensors want) {
  SCOPED_TRACE(to_text(value));
  ASSERT_EQ(subject_named(value.placement.subject).unsupported(value), "");
  const Outcome outcome = run_case(value);
  ASSERT_EQ(outcome.ending, Ending::kCompleted) << outcome.message;
  for (const Finding& finding : outcome.findings) {
    ADD_FAILURE() << name(finding.breach) << " " << finding.tensor << " on rank " << finding.rank
                  << ": " << finding.detail;
  }
  for (const Gathered& tensor : outcome.tensors) {
    const std::string tensor_name(tensor.spec.name);
    ASSERT_TRUE(want.contains(tensor_name)) << tensor_name;
    const std::vector<double>& expected = want[tensor_name].values;
    ASSERT_EQ(tensor.got.size(), expected.size()) << tensor_name;
    double largest = 0;
    for (double x : expected) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isinf(expected[i])) {
        EXPECT_EQ(tensor.got[i], expected[i]) << tensor_name << " " << i;
        continue;
      }
      const double error = std::fabs(tensor.got[i] - expected[i]);
      ASSERT_LE(error, allowed_error(value.problem.dtype) * (largest + 1))
          << tensor_name << " element " << i << ": " << tensor.got[i] << ", not " << expected[i];
    }
  }
}

// Sums that a rank hands in, by "phase operation axis", and promised ones in the same form.
inline std::map<std::string, std::pair<Index, Index>> traffic_of(const std::vector<Traffic>& list) {
  std::map<std::string, std::pair<Index, Index>> sums;
  for (const Traffic& traffic : list) {
    if (traffic.operation == "receive" || traffic.calls == 0) continue;
    const std::string key = (traffic.phase == Phase::kForward ? "forward " : "backward ") +
                            traffic.operation + " " + traffic.axis;
    sums[key].first += traffic.calls;
    sums[key].second += traffic.bytes;
  }
  return sums;
}

// Every cost that the subject states is what the run measures.
inline void expect_costs_as_stated(const Case& value) {
  SCOPED_TRACE(to_text(value));
  const Outcome outcome = run_case(value);
  ASSERT_EQ(outcome.ending, Ending::kCompleted) << outcome.message;
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const Cost cost = subject_named(value.placement.subject).cost(value, static_cast<int>(rank));
    const RankFacts& facts = outcome.ranks[rank];
    if (cost.traffic) {
      EXPECT_EQ(traffic_of(facts.traffic), traffic_of(*cost.traffic));
    }
    if (cost.kv_resident_bytes) {
      EXPECT_EQ(facts.peak_received_bytes, *cost.kv_resident_bytes);
    }
    if (cost.score_elements) {
      EXPECT_EQ(facts.meter.score_elements, *cost.score_elements);
    }
  }
}

}  // namespace shardproof
