// Problem: what is computed. Plain values; the reference sees only this. An operator uses some of
// the fields (Operator::keys) and ignores the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/model/dtype.h"
#include "harness/model/mask.h"
#include "harness/model/shape.h"

namespace shardproof {

struct Operator;

// What is added to the scaled score of (head, query, key).
enum class ScoreBias { kNone, kAlibi, kDense };
enum class Activation { kRelu, kGelu, kGeluTanh, kSilu };
enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kRingShift };
enum class DataRecipe {
  kNormal,
  kHeavyTailed,   // ratio of a normal to a uniform: a few elements dominate
  kPeaked,        // queries and keys scaled so that few keys carry a row's mass
  kRamped,        // logits that grow with the key's position; lse very negative at first
  kCancellation,  // a large common offset
  kTiny,          // subnormals and values whose products underflow
  kHuge,          // near the largest values that stay finite
  kConstantRows,  // every row of a tensor is one value
  kInteger,       // small integers: sums are exact in any order
  kCoordinates,   // every element distinct, a function of its position
};
// A deliberate change of the inputs, made by metamorphic properties.
enum class Edit {
  kNone,
  kFrom,       // tokens at positions >= edit_at are drawn anew (keys and values, or activations)
  kHiddenNan,  // keys and values that no query of their batch sees are NaN
};

std::span<const std::string_view> names_of_score_bias();
std::span<const std::string_view> names_of_activation();
std::span<const std::string_view> names_of_collective();
std::span<const std::string_view> names_of_recipe();
std::span<const std::string_view> names_of_edit();

struct Problem {
  const Operator* op = nullptr;

  // attention and attention_layer
  Index batch = 1;
  Index heads = 1;     // query heads
  Index kv_heads = 1;  // key/value heads; divides heads
  Index q = 1;         // query length in tokens
  Index kv = 1;        // key/value length in tokens
  Index dim = 1;       // head dimension of q and k
  Index dim_v = 1;     // head dimension of v and out
  MaskChoice mask;
  ScoreBias bias = ScoreBias::kNone;
  double scale = 0;    // 0: 1/sqrt(dim)
  double softcap = 0;  // 0: none

  // mlp (tokens, features -> hidden -> outputs) and attention_layer (features)
  Index tokens = 1;
  Index features = 1;
  Index hidden = 1;
  Index outputs = 1;
  Activation activation = Activation::kRelu;
  bool gated = false;

  // collective: `parts` contributions of `count` elements
  Collective collective = Collective::kAllReduce;
  Index parts = 1;
  Index count = 1;
  Index root = 0;

  DType dtype = DType::kF32;
  DataRecipe data = DataRecipe::kNormal;
  std::uint64_t seed = 0;
  Edit edit = Edit::kNone;
  Index edit_at = 0;

  bool operator==(const Problem&) const = default;
};

// The factor on q.k, the same on both sides: rounded to the accumulator's type.
double effective_scale(const Problem& problem);

// The softcap as both sides use it, rounded likewise; 0 when there is none.
double effective_softcap(const Problem& problem);

// The arguments of the problem's mask.
MaskArguments mask_arguments(const Problem& problem);
bool visible(const Problem& problem, Index batch, Index query, Index key);

// ALiBi's slope of `head`, 2^(-8 (head+1) / heads) (Press et al. 2022), rounded to bf16 so that
// slope * distance is exact in f32. The bias is -slope * |query - key|.
double alibi_slope(const Problem& problem, Index head);

}  // namespace shardproof
