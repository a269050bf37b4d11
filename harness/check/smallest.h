// Smallest: the smallest case so far that fails in the same way, and what smaller means. Shrinking
// offers it candidates, and it takes those that are smaller, valid and fail.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/check/domain.h"
#include "harness/check/shrink.h"

namespace shardproof {

struct Change {
  const Field* field;
  Index to;
};

// Every case is tried with data and schedules of the seeds below this.
inline constexpr std::uint64_t kSeeds = 2;

class Smallest {
 public:
  // `failing` fails by definition. Arguments must outlive this.
  Smallest(const Case& failing, const Subject& subject, const Vocabulary& vocabulary,
           const StillFails& still_fails, int most_evaluations);

  const Case& value() const { return value_; }
  int evaluations() const { return evaluations_; }
  bool exhausted() const { return evaluations_ >= most_evaluations_; }

  std::span<const Field* const> fields() const { return fields_; }  // that the operator uses
  std::vector<const Field*> off_simplest() const;
  Index get(const Field& field) const { return field.get(value_, vocabulary_); }
  bool is_simplest(const Field& field) const { return get(field) == field.simplest; }
  Index largest(const Field& field) const { return field.largest(false, vocabulary_); }
  Index ceiling(const Field& field) const;  // how far a trade may raise it

  bool is_size(const Field& field) const { return !is_choice(field, vocabulary_); }
  // A size of a tensor.
  bool is_extent(const Field& field) const {
    return is_size(field) && !field.placement && field.simplest == 1;
  }
  // A choice of what is computed, as opposed to in which numbers.
  bool is_trait(const Field& field) const {
    return !is_size(field) && !field.placement && field.name != "dtype" && field.name != "data";
  }

  // Take the candidate if it is smaller, valid, new, and still fails; say whether they did.
  bool accept(const Case& candidate);
  bool change(const std::vector<Change>& changes, std::optional<std::uint64_t> seeds = {});

  // No world is smaller than another: this one is preferred.
  void prefer_world(std::string_view world);

 private:
  struct Cost;
  Cost cost(const Case& value) const;
  bool fails(const Case& candidate);

  const Subject& subject_;
  const Vocabulary& vocabulary_;
  const StillFails& still_fails_;
  const int most_evaluations_;
  Case value_;
  std::vector<const Field*> fields_;
  std::vector<Index> ceilings_;
  std::unordered_set<std::string> tried_;
  int evaluations_ = 0;
};

// A number of ranks.
inline bool is_axis(const Field& field) { return field.placement && field.simplest == 1; }

}  // namespace shardproof
