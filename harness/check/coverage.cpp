#include "harness/check/coverage.h"

#include <algorithm>

#include "harness/model/operator.h"

namespace shardproof {
namespace {

enum Dimension { kOperator, kMask, kDtype, kLayout, kMesh, kData };
constexpr std::array<std::string_view, 6> kNames{"operator", "mask", "dtype",
                                                 "layout",   "mesh", "data"};

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

std::vector<int> mesh_classes(const Domain& domain, const Subject& subject) {
  const auto range = [&](std::string_view axis, std::string_view name) {
    const bool cut =
        std::find(subject.axes.begin(), subject.axes.end(), axis) != subject.axes.end();
    const FieldDomain& field = find(domain, name);
    return cut ? std::pair(field.minimum, field.maximum) : std::pair(Index{1}, Index{1});
  };
  const auto tp = range("tp", "mesh.tp");
  const auto cp = range("cp", "mesh.cp");
  const auto dp = range("dp", "mesh.dp");
  std::vector<int> result;
  for (Index i = tp.first; i <= tp.second; ++i) {
    for (Index j = cp.first; j <= cp.second; ++j) {
      for (Index k = dp.first; k <= dp.second && i * j * k <= domain.most_ranks; ++k) {
        result.push_back(mesh_class(i, j * k));
      }
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

Coverage::Coverage(const Domain& domain, const Tables& tables)
    : tables_(tables), vocabulary_(domain.vocabulary) {
  const auto count = [&](std::string_view name) {
    return static_cast<int>(find(domain, name).field->largest(false, vocabulary_)) + 1;
  };
  sizes_ = {static_cast<int>(tables.operators.size()),
            count("mask"),
            count("dtype"),
            count("layout"),
            kAxisClasses * kAxisClasses,
            count("data")};
  std::size_t size = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) {
    for (std::size_t j = i + 1; j < kDimensions; ++j) {
      offsets_[i][j] = size;
      size += static_cast<std::size_t>(sizes_[i]) * static_cast<std::size_t>(sizes_[j]);
    }
  }
  possible_.resize(size);
  covered_.resize(size);
  for (const Subject* subject : domain.subjects) allow(domain, *subject);
}

void Coverage::allow(const Domain& domain, const Subject& subject) {
  const auto op = std::find_if(tables_.operators.begin(), tables_.operators.end(),
                               [&](const Operator* each) { return each->name == subject.op; });
  const std::array<std::vector<int>, kDimensions> all{
      std::vector<int>{static_cast<int>(op - tables_.operators.begin())},
      values(domain, "mask", uses(**op, "mask")),
      values(domain, "dtype", uses(**op, "dtype")),
      values(domain, "layout", subject.uses_layout),
      mesh_classes(domain, subject),
      values(domain, "data", uses(**op, "data"))};
  for (std::size_t i = 0; i < kDimensions; ++i) {
    for (std::size_t j = i + 1; j < kDimensions; ++j) {
      Values each{};
      for (int a : all[i]) {
        for (int b : all[j]) {
          each[i] = a;
          each[j] = b;
          possible_[cell(static_cast<int>(i), static_cast<int>(j), each)] = true;
        }
      }
    }
  }
}

Coverage::Values Coverage::values_of(const Case& value) const {
  Values result;
  result.fill(-1);
  const auto& operators = tables_.operators;
  const Operator& op = *value.problem.op;
  result[kOperator] =
      static_cast<int>(std::find(operators.begin(), operators.end(), &op) - operators.begin());
  for (const Field& field : all_fields()) {
    const auto name = std::find(kNames.begin(), kNames.end(), field.name);
    if (name == kNames.end() || !is_used(field, value)) continue;
    result[static_cast<std::size_t>(name - kNames.begin())] =
        static_cast<int>(field.get(value, vocabulary_));
  }
  const Subject* subject = tables_.subject(value.placement.subject);
  if (!subject || !subject->uses_layout) result[kLayout] = -1;
  const Mesh& mesh = value.placement.mesh;
  result[kMesh] = mesh_class(mesh.size("tp"), mesh.size("cp") * mesh.size("dp"));
  return result;
}

std::size_t Coverage::cell(int first, int second, const Values& values) const {
  const auto i = static_cast<std::size_t>(first);
  const auto j = static_cast<std::size_t>(second);
  return offsets_[i][j] + static_cast<std::size_t>(values[i] * sizes_[j] + values[j]);
}

void Coverage::add(const Case& value) {
  const Values each = values_of(value);
  ++cases_;
  for (int i = 0; i < kDimensions; ++i) {
    for (int j = i + 1; j < kDimensions; ++j) {
      const int a = each[static_cast<std::size_t>(i)];
      const int b = each[static_cast<std::size_t>(j)];
      const bool known =
          a < sizes_[static_cast<std::size_t>(i)] && b < sizes_[static_cast<std::size_t>(j)];
      if (a < 0 || b < 0 || !known) continue;
      const std::size_t at = cell(i, j, each);
      if (possible_[at] && !covered_[at]) last_new_ = cases_;
      covered_[at] = true;
    }
  }
}

std::vector<Coverage::Count> Coverage::counts() const {
  std::vector<Count> result;
  for (std::size_t i = 0; i < kDimensions; ++i) {
    for (std::size_t j = i + 1; j < kDimensions; ++j) {
      Count count{kNames[i], kNames[j]};
      const std::size_t end = offsets_[i][j] + static_cast<std::size_t>(sizes_[i] * sizes_[j]);
      for (std::size_t at = offsets_[i][j]; at < end; ++at) {
        count.possible += possible_[at];
        count.covered += possible_[at] && covered_[at];
      }
      if (count.possible > 0) result.push_back(count);
    }
  }
  return result;
}

Coverage::Count Coverage::total() const {
  Count result;
  for (const Count& count : counts()) {
    result.covered += count.covered;
    result.possible += count.possible;
  }
  return result;
}

}  // namespace shardproof
