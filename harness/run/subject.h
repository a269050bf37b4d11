// Subject: an implementation under test, or a mutant of one: a plain struct of a name and functions
// that keep nothing from call to call, so that it runs in every world. Sharding is declared, not
// performed: the rank builds shards from it, the world assembles outputs by it, and replicas are
// compared bit for bit.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/case.h"
#include "harness/model/contract.h"
#include "harness/run/rank.h"

namespace shardproof {

// What makes a subject a mutant: one deliberate fault of a known kind.
struct Fault {
  std::string_view kind;    // "K25" in the table of bug kinds
  std::string_view killer;  // the property that must falsify it
  std::string_view says;    // the fault in one line
};

struct Subject {
  std::string_view name;
  std::string_view op;  // name of the operator it implements
  std::string_view summary;
  std::vector<std::string_view> axes;  // mesh axes it can be cut along; empty: one rank
  bool uses_layout = false;
  bool any_views = false;       // takes tensors with any strides; others are handed dense ones
  bool reshards = false;        // takes weights that come cut in any number of pieces
  bool queries_travel = false;  // a rank computes scores of queries that its shard does not hold

  // Precision, determinism and partitions promised for this case.
  std::function<Contract(const Case& value)> contract = nullptr;

  // What `rank` may cost in this case.
  std::function<Cost(const Case& value, int rank)> cost = nullptr;

  // Why it cannot run this case, or an empty string.
  std::function<std::string(const Case& value)> unsupported = nullptr;

  // Changes the placement (and where the two depend on each other, the problem) of a drawn case
  // into one that is supported where that is possible. May be null.
  std::function<void(Case& value)> adapt = nullptr;

  // The global indices of each dimension of `tensor` that `rank` holds. Depends on neither the
  // problem's edit nor the schedule.
  Shard (*shard)(const Case& value, const TensorSpec& tensor, int rank) = nullptr;

  std::function<void(Rank& rank)> forward = nullptr;
  std::function<void(Rank& rank)> backward = nullptr;

  const Fault* fault = nullptr;  // null for a correct subject
};

// Why the subject cannot run this case, or an empty string.
inline std::string refusal(const Subject& subject, const Case& value) {
  if (value.placement.views != Views::kDense && !subject.any_views) return "takes dense tensors";
  if (value.placement.stored != 0 && !subject.reshards)
    return "takes weights as the mesh cuts them";
  return subject.unsupported(value);
}

}  // namespace shardproof
