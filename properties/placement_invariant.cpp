#include <algorithm>
#include <optional>

#include "harness/model/element.h"
#include "properties/properties.h"
#include "properties/same_values.h"

namespace shardproof {
namespace {

// Small cases stay small: no variant has more ranks than this or than the case itself.
constexpr int kMostRanks = 16;

std::string inapplicable(const Case&, const Subject& subject) {
  return subject.axes.empty() ? "the subject runs on one rank" : "";
}

Mesh without_trivial_axes(const Mesh& mesh) {
  Mesh result;
  for (const Axis& axis : mesh.axes) {
    if (axis.size > 1) result.axes.push_back(axis);
  }
  return result;
}

bool same_place(const Placement& a, const Placement& b) {
  const Mesh mesh = without_trivial_axes(a.mesh);
  const bool one_rank = mesh.axes.empty();
  return mesh == without_trivial_axes(b.mesh) && a.views == b.views &&
         (one_rank || (a.layout == b.layout && a.stored == b.stored));
}

// `candidate` made fit for the subject; nothing when that leaves the problem or leads back.
std::optional<Case> fitted(Case candidate, const Case& value, const Subject& subject) {
  if (candidate.placement.mesh.ranks() > std::max(kMostRanks, value.placement.mesh.ranks())) {
    return std::nullopt;
  }
  if (subject.adapt != nullptr) subject.adapt(candidate);
  const bool other =
      candidate.problem == value.problem && !same_place(candidate.placement, value.placement);
  if (!other || !refusal(subject, candidate).empty()) return std::nullopt;
  return candidate;
}

// One rank, other layouts, tensors that lie as usual, weights from other pieces, and meshes one
// step away.
std::vector<Case> alternatives(const Case& value, const Subject& subject) {
  std::vector<Case> result{value};
  result.back().placement.mesh = {};
  result.back().placement.layout = Layout::kContiguous;
  if (subject.uses_layout) {
    for (Layout layout : all_layouts()) {
      if (layout == value.placement.layout) continue;
      result.push_back(value);
      result.back().placement.layout = layout;
    }
  }
  if (value.placement.views != Views::kDense) {
    result.push_back(value);
    result.back().placement.views = Views::kDense;
  }
  if (subject.reshards) {
    result.push_back(value);
    result.back().placement.stored = value.placement.stored == 1 ? 3 : 1;
  }
  Mesh mesh;
  for (std::string_view axis : subject.axes) {
    mesh.axes.push_back({std::string(axis), value.placement.mesh.size(axis)});
  }
  const auto add = [&](auto change) {
    result.push_back(value);
    result.back().placement.mesh = mesh;
    change(result.back().placement.mesh.axes);
  };
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    add([i](auto& axes) { axes[i].size *= 2; });
    add([i](auto& axes) { axes[i].size += 1; });
    if (i == 0) continue;
    add([i](auto& axes) { std::swap(axes[i].size, axes[i - 1].size); });
    add([i](auto& axes) { std::swap(axes[i], axes[i - 1]); });
  }
  return result;
}

// The alternative that the case's seeds choose, or the next one that is possible.
std::vector<Case> variants(const Case& value, const Subject& subject) {
  std::vector<Case> others = alternatives(value, subject);
  const std::uint64_t start = mix(value.problem.seed ^ mix(value.placement.schedule));
  for (std::size_t i = 0; i < others.size(); ++i) {
    auto fit = fitted(std::move(others[(start + i) % others.size()]), value, subject);
    if (fit) return {std::move(*fit)};
  }
  return {};
}

Verdict judge(const Evidence& evidence) {
  return verdict_of_same_values(evidence.base, *evidence.variants.front());
}

}  // namespace

const Property& placement_invariant_property() {
  static const Property property{
      .name = "placement_invariant",
      .family = Family::kInvariance,
      .claim =
          "Another mesh, layout, arrangement or number of ranks gives the same values within both "
          "bounds.",
      .inapplicable = inapplicable,
      .variants = variants,
      .judge = judge,
  };
  return property;
}

}  // namespace shardproof
