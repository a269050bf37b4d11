// Mask: which key a query may see, as a predicate over global positions. One mask per file in
// harness/masks, listed in masks.def. The predicate is the only thing about masks that the
// reference and the implementations share.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/shape.h"

namespace shardproof {

// What a predicate may depend on besides (batch, query, key): the lengths, the mask's own
// parameters `a` and `b`, and the problem's seed.
struct MaskArguments {
  Index queries = 0;
  Index keys = 0;
  Index a = 0;
  Index b = 0;
  std::uint64_t seed = 0;
};

struct MaskParameter {
  std::string_view name;
  Index minimum;
  Index (*maximum)(Index queries, Index keys);
};

struct Mask {
  std::string_view name;
  std::string_view summary;
  std::vector<MaskParameter> parameters;  // at most two: a, then b
  bool (*visible)(const MaskArguments& arguments, Index batch, Index query, Index key);

  // A small drawing that a test compares with the predicate: one line a query, '#' visible, '.'
  // hidden, drawn with these arguments for batch 0.
  MaskArguments picture_arguments;
  std::string_view picture;

  // Of packed documents: the position at which the one begins that `position` belongs to. Null: the
  // mask knows no documents.
  Index (*document_start)(const MaskArguments& arguments, Index position) = nullptr;
};

// A mask together with its parameters, as a Problem carries it.
struct MaskChoice {
  const Mask* mask = nullptr;
  Index a = 0;
  Index b = 0;

  // "window:5,0"
  std::string text() const;
  bool operator==(const MaskChoice&) const = default;
};

}  // namespace shardproof
