#include "properties/twin.h"

#include <algorithm>

#include "harness/model/element.h"
#include "harness/model/field.h"

namespace shardproof {

Case twin_of(const Case& value, const Subject& subject, const TwinExtents& least,
             std::uint64_t number) {
  // Room above the least keeps extents unequal.
  constexpr Index kRoom = 8;
  constexpr Index kMostHeads = 4;
  Case result = value;
  Problem& p = result.problem;
  p.data = DataRecipe::kNormal;
  p.edit = Edit::kNone;
  p.seed = mix(p.seed + number) >> 32;
  p.scale = 0;  // weights that differ, so that their roundings do
  p.batch = 1;
  if (p.heads > kMostHeads) {
    p.heads = kMostHeads;
    p.kv_heads = std::min<Index>(p.kv_heads, 2);
  }
  for (Index* extent : {&p.q, &p.kv, &p.tokens, &p.features, &p.hidden, &p.outputs}) {
    *extent = std::clamp(*extent, least.long_side, least.long_side + kRoom);
  }
  for (Index* extent : {&p.dim, &p.dim_v}) {
    *extent = std::clamp(*extent, least.head_side, least.head_side + kRoom);
  }
  repair(p);
  if (subject.adapt != nullptr) subject.adapt(result);
  repair(p);
  return result;
}

}  // namespace shardproof
