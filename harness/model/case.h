// Case: a Problem and a Placement, everything needed to replay a run, with an exact text form:
//   attention batch=2 heads=4/2 q=33 kv=33 dim=16 mask=causal dtype=bf16 data=peaked seed=1f3a
//     | ring_attention world=sim device=cpu mesh=cp:4 layout=zigzag schedule=77   (one line)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/layout.h"
#include "harness/model/mesh.h"
#include "harness/model/problem.h"

namespace shardproof {

// How the tensors that a rank is handed lie in memory.
enum class Views {
  kDense,       // each in an allocation of its own
  kOffset,      // dense, but off any alignment
  kStrided,     // parts of larger tensors: gaps behind every dimension
  kPacked,      // those that count the same rows side by side, as q, k and v in one projection
  kTransposed,  // dense in another order of the dimensions: heads before tokens, columns before
                // rows
  kFar,         // rows so far apart that their distance does not fit 32 bits
};

std::span<const std::string_view> names_of_views();

// Placement: where and how the problem is computed.
struct Placement {
  std::string subject;
  std::string world = "sim";
  std::string device = "cpu";
  Mesh mesh;
  Layout layout = Layout::kContiguous;
  Views views = Views::kDense;
  Index stored = 0;  // in how many pieces weights come that the run cuts anew; 0: as many as ranks
  std::uint64_t schedule = 0;

  bool operator==(const Placement&) const = default;
};

struct Case {
  Problem problem;
  Placement placement;

  bool operator==(const Case&) const = default;
};

// The names that a case's text may use, taken from the tables that main passes down.
struct Vocabulary {
  std::vector<const Operator*> operators;
  std::vector<const Mask*> masks;
  std::vector<std::string_view> subjects;
  std::vector<std::string_view> worlds;
  std::vector<std::string_view> devices;
};

// The canonical one-line text. Optional keys at their default are left out.
std::string to_text(const Case& value);
std::string to_text(const Problem& problem);
std::string to_text(const Placement& placement);

// The inverse of to_text. Keys may come in any order and repeat never. Throws Error naming the
// key, the value, the rule and the choices.
Case parse_case(std::string_view text, const Vocabulary& vocabulary);

// Which rule the case breaks, or nothing. Independent of any subject.
std::string broken_rule(const Case& value);

}  // namespace shardproof
