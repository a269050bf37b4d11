#include "harness/check/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/check/compare.h"

namespace shardproof {
namespace {

// The wrong elements of one output or gradient.
struct Wrong {
  const Gathered* got = nullptr;
  const ExpectedTensor* want = nullptr;
  std::vector<std::size_t> elements;
};

// NaN is right where the reference has it, and nowhere else.
bool is_right(double got, double want, double bound) {
  return accepts(got, want, bound) || (std::isnan(got) && std::isnan(want));
}

std::vector<Wrong> wrong_tensors(const Run& run, const Expected& expected) {
  std::vector<Wrong> result;
  for (const ExpectedTensor& want : expected.tensors) {
    const Gathered* got = run.outcome.find(want.spec.name);
    if (got == nullptr || got->got.size() != want.want.size()) continue;
    Wrong wrong{got, &want, {}};
    for (std::size_t i = 0; i < got->got.size(); ++i) {
      if (!is_right(got->got[i], want.want[i], want.likely[i])) wrong.elements.push_back(i);
    }
    if (!wrong.elements.empty()) result.push_back(std::move(wrong));
  }
  return result;
}

// "wrong: dk, dv (the forward pass is right); right: out, lse, dq"
std::string stage(const Expected& expected, const std::vector<Wrong>& wrong) {
  std::vector<std::string_view> bad, good;
  bool forward = false;
  for (const ExpectedTensor& want : expected.tensors) {
    const bool is_bad = std::any_of(wrong.begin(), wrong.end(),
                                    [&](const Wrong& each) { return each.want == &want; });
    (is_bad ? bad : good).push_back(want.spec.name);
    forward = forward || (is_bad && want.spec.kind == TensorKind::kOutput);
  }
  return fmt::format("wrong: {} ({}){}{}", fmt::join(bad, ", "),
                     forward ? "from the forward pass on" : "the forward pass is right",
                     good.empty() ? "" : "; right: ", fmt::join(good, ", "));
}

// Numbers that a fault of parallel code multiplies by.
struct Named {
  double factor;
  std::string name;
};

std::vector<Named> known_factors(const Case& value) {
  std::vector<Named> result{{-1, "a lost sign"}, {2, "counted twice"}, {0.5, "half is missing"}};
  for (const Axis& axis : value.placement.mesh.axes) {
    if (axis.size < 2) continue;
    const double size = axis.size;
    result.push_back({size, fmt::format("the size of {}", axis.name)});
    result.push_back({1 / size, fmt::format("1 / the size of {}", axis.name)});
    result.push_back({(size - 1) / size, fmt::format("one rank of {} is missing", axis.name)});
  }
  const Problem& p = value.problem;
  if (p.heads > p.kv_heads) {
    const double group = static_cast<double>(p.heads / p.kv_heads);
    result.push_back({group, "query heads per key/value head"});
    result.push_back({1 / group, "1 / query heads per key/value head"});
  }
  return result;
}

// "out is 4 times what it should be (the size of tp)", where one factor explains every wrong
// element that is not near zero.
std::string factor(const Case& value, const Wrong& wrong) {
  double products = 0;
  double squares = 0;
  for (std::size_t i : wrong.elements) {
    products += wrong.got->got[i] * wrong.want->want[i];
    squares += wrong.want->want[i] * wrong.want->want[i];
  }
  const double ratio = products / squares;
  if (wrong.elements.size() < 2 || !std::isfinite(ratio) || ratio == 0) return "";
  for (std::size_t i : wrong.elements) {
    const double want = ratio * wrong.want->want[i];
    const double bound = std::max(1.0, std::fabs(ratio)) * wrong.want->likely[i];
    if (!accepts(wrong.got->got[i], want, 2 * bound + 1e-3 * std::fabs(want))) return "";
  }
  std::string name;
  for (const Named& known : known_factors(value)) {
    if (std::fabs(ratio - known.factor) > 5e-3 * std::fabs(known.factor)) continue;
    name += (name.empty() ? " (" : ", or ") + known.name;
  }
  return fmt::format("{} is {:.4g} times what it should be{}", wrong.want->spec.name, ratio,
                     name.empty() ? "" : name + ")");
}

// "lse is 0 where it is wrong"
std::string one_value(const Wrong& wrong) {
  const double first = wrong.got->got[wrong.elements.front()];
  const bool same = std::all_of(wrong.elements.begin(), wrong.elements.end(), [&](std::size_t i) {
    const double each = wrong.got->got[i];
    return each == first || (std::isnan(each) && std::isnan(first));
  });
  if (!same || wrong.elements.size() < 2) return "";
  return fmt::format("{} is {:.4g} wherever it is wrong", wrong.want->spec.name, first);
}

std::string list_of(const std::set<Index>& indices, Index extent) {
  std::vector<Index> few(indices.begin(), indices.end());
  const bool tail =
      few.back() == extent - 1 && few.back() - few.front() + 1 == static_cast<Index>(few.size());
  if (tail && few.size() > 1) return fmt::format("{} to the last", few.front());
  if (few.size() == 1 && tail) return "the last";
  if (few.size() > 4) return fmt::format("{} of {}", few.size(), extent);
  return fmt::format("{} of {}", fmt::join(few, ", "), extent);
}

// "only in token 5 of 9, head 1 of 2, on rank 2"
std::string place(const Run& run, const Wrong& wrong) {
  const TensorSpec& spec = wrong.want->spec;
  const int rank = spec.shape.rank();
  const auto names = dimension_names(spec.name, rank, spec.token_dimension);
  std::vector<std::set<Index>> seen(static_cast<std::size_t>(rank));
  for (std::size_t i : wrong.elements) {
    const auto at = spec.shape.coordinates(static_cast<Index>(i));
    for (std::size_t d = 0; d < seen.size(); ++d) seen[d].insert(at[d]);
  }
  std::vector<std::string> parts;
  for (int d = 0; d < rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (static_cast<Index>(seen[i].size()) == spec.shape[d]) continue;
    parts.push_back(fmt::format("{} {}", names[i], list_of(seen[i], spec.shape[d])));
  }
  std::set<Index> ranks;
  for (int r = 0; r < run.value.placement.mesh.ranks(); ++r) {
    const Shard shard = run.subject->shard(run.value, spec, r);
    const bool holds = std::any_of(wrong.elements.begin(), wrong.elements.end(), [&](auto i) {
      const auto at = spec.shape.coordinates(static_cast<Index>(i));
      for (std::size_t d = 0; d < shard.size(); ++d) {
        if (std::find(shard[d].begin(), shard[d].end(), at[d]) == shard[d].end()) return false;
      }
      return true;
    });
    if (holds) ranks.insert(r);
  }
  const Index all = run.value.placement.mesh.ranks();
  if (!ranks.empty() && static_cast<Index>(ranks.size()) < all) {
    parts.push_back(fmt::format("rank {}", list_of(ranks, all)));
  }
  if (parts.empty()) return "";
  return fmt::format("{} is wrong only in {}", spec.name, fmt::join(parts, ", "));
}

// The values of a shard, row-major, out of a whole tensor.
std::vector<double> values_of(const std::vector<double>& whole, const Shape& shape,
                              const Shard& shard) {
  const Shape local = shape_of(shard);
  std::vector<double> result;
  for (Index i = 0; i < local.elements(); ++i) {
    const auto at = local.coordinates(i);
    Index flat = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      const auto u = static_cast<std::size_t>(d);
      flat = flat * shape[d] + shard[u][static_cast<std::size_t>(at[u])];
    }
    result.push_back(whole[static_cast<std::size_t>(flat)]);
  }
  return result;
}

// "rank 0 holds what rank 2 should hold of dk"
std::string permutation(const Run& run, const Wrong& wrong) {
  const TensorSpec& spec = wrong.want->spec;
  const int ranks = std::min(run.value.placement.mesh.ranks(), 16);
  std::vector<std::vector<double>> got, want, bound;
  for (int r = 0; r < ranks; ++r) {
    const Shard shard = run.subject->shard(run.value, spec, r);
    got.push_back(values_of(wrong.got->got, spec.shape, shard));
    want.push_back(values_of(wrong.want->want, spec.shape, shard));
    bound.push_back(values_of(wrong.want->likely, spec.shape, shard));
  }
  const auto fits = [&](std::size_t holder, std::size_t owner) {
    if (got[holder].size() != want[owner].size() || got[holder].empty()) return false;
    for (std::size_t i = 0; i < got[holder].size(); ++i) {
      if (!accepts(got[holder][i], want[owner][i], bound[owner][i])) return false;
    }
    return true;
  };
  for (std::size_t a = 0; a < got.size(); ++a) {
    if (fits(a, a)) continue;
    for (std::size_t b = 0; b < got.size(); ++b) {
      if (!fits(a, b)) continue;
      return fmt::format("rank {} holds what rank {} should hold of {}", a, b, spec.name);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> dimension_names(std::string_view tensor, int rank, int token_dimension) {
  const int token = token_dimension;
  if (tensor.ends_with("bias") && rank == 3) return {"head", "query", "key"};
  if (rank == 4 && token == 1) return {"batch", "token", "head", "feature"};
  if (rank == 3 && token == 2) return {"batch", "head", "token"};
  if (rank == 3 && token == 1) return {"batch", "token", "feature"};
  if (rank == 2 && token == 0) return {"token", "feature"};
  std::vector<std::string> result;
  for (int d = 0; d < rank; ++d) {
    result.push_back(d == token ? "token" : fmt::format("dimension {}", d));
  }
  return result;
}

std::vector<std::string> diagnose(const Run& run) {
  if (run.outcome.ending != Ending::kCompleted) return {};
  // The reference says where NaN comes from, not what it hides.
  if (run.value.problem.edit == Edit::kNanToken) return {};
  const Expected& expected = run.expected(Effort::kLikely);
  const std::vector<Wrong> wrong = wrong_tensors(run, expected);
  if (wrong.empty()) return {};
  std::vector<std::string> result{stage(expected, wrong)};
  const auto add = [&](std::string sentence) {
    if (!sentence.empty()) result.push_back(std::move(sentence));
  };
  for (const Wrong& each : wrong) {
    const std::size_t before = result.size();
    add(one_value(each));
    if (result.size() == before) add(factor(run.value, each));
    if (result.size() == before) add(permutation(run, each));
    add(place(run, each));
  }
  return result;
}

bool is_alike(const Run& run, const Run& other) {
  if (other.outcome.ending != Ending::kCompleted) return false;
  bool is_wrong = false;
  for (const ExpectedTensor& want : run.expected(Effort::kLikely).tensors) {
    const Gathered* a = run.outcome.find(want.spec.name);
    const Gathered* b = other.outcome.find(want.spec.name);
    if (a == nullptr || b == nullptr || a->got.size() != b->got.size()) return false;
    for (std::size_t i = 0; i < a->got.size(); ++i) {
      const double right = want.want[i];
      const double bound = want.likely[i];
      is_wrong = is_wrong || (!is_right(a->got[i], right, bound) &&  //
                              !is_right(b->got[i], right, bound));
      const double error = std::max(std::fabs(a->got[i] - right), std::fabs(b->got[i] - right));
      const double room = error > bound ? std::min(2 * bound, error / 2) : 2 * bound;
      if (!is_right(a->got[i], b->got[i], room)) return false;
    }
  }
  return is_wrong;
}

bool is_alike(const Judgement& failure, const Judgement& other) {
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  return failure.property == other.property &&
         signature("", "", failure.verdict) == signature("", "", other.verdict) &&
         first_line(failure.verdict.message) == first_line(other.verdict.message);
}

}  // namespace shardproof
