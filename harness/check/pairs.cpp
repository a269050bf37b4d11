#include "harness/check/pairs.h"

#include <algorithm>
#include <map>

#include "harness/model/operator.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

enum Dimension : std::size_t { kOperator, kMask, kDtype, kLayout, kMesh, kData };

// Sizes of an axis that are told apart: 1, 2, 3, 4, 5..8, 9..16, more.
constexpr int kAxisClasses = 7;
int axis_class(Index size) {
  if (size <= 4) return static_cast<int>(size) - 1;
  return size <= 8 ? 4 : size <= 16 ? 5 : 6;
}
// Weights are cut along tp, tokens along cp or dp.
int mesh_class(Index weights, Index tokens) {
  return axis_class(weights) * kAxisClasses + axis_class(tokens);
}

bool uses(const Operator& op, std::string_view key) {
  return std::find(op.keys.begin(), op.keys.end(), key) != op.keys.end();
}

const FieldDomain& find(const Domain& domain, std::string_view name) {
  return *std::find_if(domain.fields.begin(), domain.fields.end(),
                       [&](const FieldDomain& each) { return each.field->name == name; });
}

// The values a field may take, as its choices number them.
std::vector<int> values(const Domain& domain, std::string_view name, bool used) {
  std::vector<int> result;
  if (!used) return result;
  for (Index choice : find(domain, name).choices) result.push_back(static_cast<int>(choice));
  return result;
}

struct MeshSizes {
  Index tp = 1, cp = 1, dp = 1;
};

// Every mesh of a subject whose ranks the domain allows.
std::vector<MeshSizes> meshes(const Domain& domain, const Subject& subject) {
  const auto range = [&](std::string_view axis, std::string_view name) {
    const bool cut =
        std::find(subject.axes.begin(), subject.axes.end(), axis) != subject.axes.end();
    const FieldDomain& field = find(domain, name);
    return cut ? std::pair(field.minimum, field.maximum) : std::pair(Index{1}, Index{1});
  };
  const auto tp = range("tp", "mesh.tp");
  const auto cp = range("cp", "mesh.cp");
  const auto dp = range("dp", "mesh.dp");
  std::vector<MeshSizes> result;
  for (Index i = tp.first; i <= tp.second; ++i) {
    for (Index j = cp.first; j <= cp.second; ++j) {
      for (Index k = dp.first; k <= dp.second && i * j * k <= domain.most_ranks; ++k) {
        result.push_back({i, j, k});
      }
    }
  }
  return result;
}

std::vector<int> mesh_classes(const Domain& domain, const Subject& subject) {
  std::vector<int> result;
  for (const MeshSizes& mesh : meshes(domain, subject)) {
    result.push_back(mesh_class(mesh.tp, mesh.cp * mesh.dp));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Null for a stored case of a subject that is not drawn.
const Subject* subject_of(const Case& value, const Domain& domain) {
  const auto found = std::find_if(
      domain.subjects.begin(), domain.subjects.end(),
      [&](const Subject* subject) { return subject->name == value.placement.subject; });
  return found == domain.subjects.end() ? nullptr : *found;
}

}  // namespace

std::array<int, kPairDimensions> pair_sizes(const Domain& domain) {
  const auto count = [&](std::string_view name) {
    return static_cast<int>(find(domain, name).field->largest(false, domain.vocabulary)) + 1;
  };
  return {static_cast<int>(domain.vocabulary.operators.size()),
          count("mask"),
          count("dtype"),
          count("layout"),
          kAxisClasses * kAxisClasses,
          count("data")};
}

PairValues pair_values(const Case& value, const Domain& domain) {
  PairValues result;
  result.fill(-1);
  const auto& operators = domain.vocabulary.operators;
  const auto op = std::find(operators.begin(), operators.end(), value.problem.op);
  result[kOperator] = static_cast<int>(op - operators.begin());
  for (const Field& field : all_fields()) {
    const auto name = std::find(kPairNames.begin(), kPairNames.end(), field.name);
    if (name == kPairNames.end() || !is_used(field, value)) continue;
    result[static_cast<std::size_t>(name - kPairNames.begin())] =
        static_cast<int>(field.get(value, domain.vocabulary));
  }
  const Subject* subject = subject_of(value, domain);
  if (subject == nullptr || !subject->uses_layout) result[kLayout] = -1;
  const Mesh& mesh = value.placement.mesh;
  result[kMesh] = mesh_class(mesh.size("tp"), mesh.size("cp") * mesh.size("dp"));
  return result;
}

std::array<std::vector<int>, kPairDimensions> pair_choices(const Domain& domain,
                                                           const Subject& subject) {
  const auto& operators = domain.vocabulary.operators;
  const auto op = std::find_if(operators.begin(), operators.end(),
                               [&](const Operator* each) { return each->name == subject.op; });
  require(op != operators.end(), "a subject's operator is in the table");
  return {std::vector<int>{static_cast<int>(op - operators.begin())},
          values(domain, "mask", uses(**op, "mask")),
          values(domain, "dtype", uses(**op, "dtype")),
          values(domain, "layout", subject.uses_layout),
          mesh_classes(domain, subject),
          values(domain, "data", uses(**op, "data"))};
}

std::vector<Pair> possible_pairs(const Domain& domain) {
  std::map<std::array<int, 4>, std::vector<std::size_t>> found;
  for (std::size_t s = 0; s < domain.subjects.size(); ++s) {
    const auto choices = pair_choices(domain, *domain.subjects[s]);
    for (int i = 0; i < kPairDimensions; ++i) {
      for (int j = i + 1; j < kPairDimensions; ++j) {
        for (int a : choices[static_cast<std::size_t>(i)]) {
          for (int b : choices[static_cast<std::size_t>(j)]) found[{i, j, a, b}].push_back(s);
        }
      }
    }
  }
  std::vector<Pair> result;
  for (auto& [key, subjects] : found) {
    result.push_back({key[0], key[1], key[2], key[3], std::move(subjects)});
  }
  return result;
}

void set_dimension(Case& value, int dimension, int to, const Domain& domain, std::uint64_t random) {
  const auto which = static_cast<std::size_t>(dimension);
  if (which == kOperator) return;
  const auto set = [&](std::string_view name, Index size) {
    find(domain, name).field->set(value, size, domain.vocabulary);
  };
  if (which != kMesh) return set(kPairNames[which], to);
  std::vector<MeshSizes> fitting = meshes(domain, *subject_of(value, domain));
  std::erase_if(
      fitting, [&](const MeshSizes& mesh) { return mesh_class(mesh.tp, mesh.cp * mesh.dp) != to; });
  if (fitting.empty()) return;
  const MeshSizes& mesh = fitting[random % fitting.size()];
  set("mesh.tp", mesh.tp);
  set("mesh.cp", mesh.cp);
  set("mesh.dp", mesh.dp);
}

}  // namespace shardproof
