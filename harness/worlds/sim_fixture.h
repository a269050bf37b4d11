// For tests of the simulated world: a small operator with one input, one output and their
// gradients, all [tokens, features], and subjects made of two functions. Tokens are cut along cp
// and held by all ranks of the other axes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/devices/devices.h"
#include "harness/worlds/worlds.h"

namespace shardproof {

inline std::vector<TensorSpec> fixture_tensors(const Problem& problem) {
  const Shape shape{problem.tokens, problem.features};
  return {{"x", TensorKind::kInput, Role::kActivation, problem.dtype, shape, 0},
          {"dy", TensorKind::kUpstream, Role::kUpstream, problem.dtype, shape, 0},
          {"y", TensorKind::kOutput, Role::kActivation, problem.dtype, shape, 0},
          {"dx", TensorKind::kGradient, Role::kActivation, problem.dtype, shape, 0}};
}

inline constexpr std::string_view kFixtureKeys[] = {"tokens", "features", "dtype", "data", "seed"};

inline const Operator& fixture_operator() {
  static const Operator fixture{.name = "fixture",
                                .summary = "for tests",
                                .keys = kFixtureKeys,
                                .tensors = &fixture_tensors,
                                .repair = [](Problem&) {},
                                .broken_rule = [](const Problem&) { return std::string(); },
                                .evaluate = nullptr,
                                .work = [](const Problem&) { return 1.0; }};
  return fixture;
}

inline Shard fixture_shard(const Case& value, const TensorSpec& tensor, int rank) {
  const Mesh& mesh = value.placement.mesh;
  std::vector<Index> features;
  for (Index i = 0; i < tensor.shape[1]; ++i) features.push_back(i);
  return {owned_positions(value.placement.layout, tensor.shape[0], mesh.size("cp"),
                          mesh.coordinate(rank, "cp")),
          features};
}

inline Case fixture_case(Mesh mesh, std::uint64_t schedule = 0, Index tokens = 7,
                         Index features = 3) {
  Case value;
  value.problem.op = &fixture_operator();
  value.problem.tokens = tokens;
  value.problem.features = features;
  value.problem.seed = 5;
  value.placement.subject = "fixture";
  value.placement.mesh = std::move(mesh);
  value.placement.schedule = schedule;
  return value;
}

// What a subject must do: everything written.
inline void copy_forward(Rank& rank) { rank.device().copy(rank.get("x"), rank.get("y")); }
inline void copy_backward(Rank& rank) { rank.device().copy(rank.get("dy"), rank.get("dx")); }

inline Subject fixture_subject(void (*forward)(Rank&), void (*backward)(Rank&) = &copy_backward) {
  Subject subject;
  subject.name = "fixture";
  subject.op = "fixture";
  subject.shard = &fixture_shard;
  subject.forward = forward;
  subject.backward = backward;
  return subject;
}

inline std::unique_ptr<World> make_sim() { return all_worlds().at(0).make(all_devices()); }

inline Outcome run_sim(const Case& value, const Subject& subject, const RunOptions& options = {}) {
  return make_sim()->run(value, subject, options);
}

inline Mesh cp_mesh(int ranks) { return Mesh{{{"cp", ranks}}}; }

inline std::string text(const Outcome& outcome) {
  std::string result = std::string(name(outcome.ending)) + ": " + outcome.message;
  for (const Finding& finding : outcome.findings) {
    result += "\n" + std::string(name(finding.breach)) + " rank " + std::to_string(finding.rank) +
              " '" + finding.tensor + "' " + std::to_string(finding.element) + ": " +
              finding.detail;
  }
  return result;
}

// Completed, and nothing to find.
inline void expect_clean(const Outcome& outcome) {
  EXPECT_EQ(outcome.ending, Ending::kCompleted) << text(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << text(outcome);
}

// Exactly one finding of this kind; returns it.
inline Finding only_finding(const Outcome& outcome, Breach breach) {
  EXPECT_EQ(outcome.ending, Ending::kCompleted) << text(outcome);
  EXPECT_EQ(outcome.findings.size(), 1u) << text(outcome);
  if (outcome.findings.size() != 1) return {};
  EXPECT_EQ(outcome.findings[0].breach, breach) << text(outcome);
  return outcome.findings[0];
}

}  // namespace shardproof
