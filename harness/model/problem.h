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
// Where tokens stand for rotary positions: token i of either side at i, unless said otherwise.
enum class PositionIds {
  kArange,
  kOffset,     // all of them by position_offset further on
  kCached,     // the queries by position_offset further on, after a cache of so many keys
  kDocuments,  // counted from the beginning of the token's document
  kPermuted,   // token i at i XOR 5: every eight tokens change places
};
enum class Side { kQueries, kKeys };
enum class Activation { kRelu, kGelu, kGeluTanh, kSilu };
enum class Norm { kRms, kLayer };
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
  kSunken,        // all logits near -20000, below what stands for minus infinity in some masks
};
// A deliberate change of the inputs, made by metamorphic properties.
enum class Edit {
  kNone,
  kFrom,       // tokens at positions >= edit_at are drawn anew (keys and values, or activations)
  kHiddenNan,  // keys and values that no query of their batch sees, and padding, are NaN
  kNanToken,   // token edit_at of the queries (or activations) is NaN
  kUpstreamTwice,  // upstream gradients are doubled
  kValuesTwice,    // tensors with a value_power (operator.h) are doubled
  kUniform,        // queries and score biases are 0, values one-hot: every visible key weighs alike
  kNudge,          // every element moves by kNudges[edit_at] (edit.h) up or down
  kSwamped,        // integers, and in sums two large terms that cancel (swamped.h)
};

std::span<const std::string_view> names_of_score_bias();
std::span<const std::string_view> names_of_position_ids();
std::span<const std::string_view> names_of_activation();
std::span<const std::string_view> names_of_norm();
std::span<const std::string_view> names_of_collective();
std::span<const std::string_view> names_of_recipe();

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
  bool sink = false;   // a logit a head that joins every row of the softmax and has no value
  double scale = 0;    // 0: 1/sqrt(dim)
  double softcap = 0;  // 0: none
  double dropout = 0;  // share of the weights P that are left out
  double rotary = 0;   // base of the angles by which rotary positions turn q and k; 0: none
  PositionIds positions = PositionIds::kArange;
  Index position_offset = 0;

  // mlp, norm_mlp, training_step (tokens, features -> hidden -> outputs), attention_layer
  Index tokens = 1;
  Index features = 1;
  Index hidden = 1;
  Index outputs = 1;
  Activation activation = Activation::kRelu;
  bool gated = false;

  // norm_mlp
  Norm norm = Norm::kRms;
  double epsilon = 1e-5;  // added to the variance

  // collective: `parts` contributions of `count` elements
  Collective collective = Collective::kAllReduce;
  Index parts = 1;
  Index count = 1;
  Index root = 0;

  // cross_entropy: next-word losses of `batch` sequences of `tokens`
  Index vocab = 1;       // words
  Index padding = 0;     // columns of the logits beyond the words
  double smoothing = 0;  // share of the target spread evenly over the words
  double ignored = 0;    // share of the tokens that are nobody's target

  // training_step
  bool tied = false;        // w2 is w1 transposed
  Index micro_batches = 1;  // in which a rank works through its tokens
  double max_norm = 0;      // gradients are clipped to it; 0: not at all

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

// What the weights that dropout keeps are multiplied by, 1 / (1 - dropout), rounded likewise.
double dropout_factor(const Problem& problem);

// Whether dropout keeps the weight of a pair: a function of the seed and of global positions, and
// so the same under every placement.
bool is_kept(std::uint64_t seed, double dropout, Index batch, Index head, Index query, Index key);

// Whether these positions take position_offset.
bool has_offset(PositionIds positions);

// Where a token stands for rotary positions.
Index rotary_position(const Problem& problem, Side side, Index token);

// Rotary positions (Su et al. 2021, arXiv 2104.09864, equation 15): of a token's q and k, the
// elements a, b = 2 pair, 2 pair + 1 become cosine a - sine b, sine a + cosine b, by the angle
// position * base^(-2 pair / dim). The angle is formed in f64; cosine and sine, the same on both
// sides, are rounded to `type`, the accumulator's.
struct Turn {
  double cosine = 1;
  double sine = 0;
};
Turn rotary_turn(double base, Index dim, Index position, Index pair, DType type);

// The label smoothing as both sides use it, rounded likewise.
double effective_smoothing(const Problem& problem);

// The epsilon of a norm as both sides use it, rounded likewise.
double effective_epsilon(const Problem& problem);

// The largest norm of the gradients as both sides use it, rounded likewise; 0 when there is none.
double effective_max_norm(const Problem& problem);

// The arguments of the problem's mask.
MaskArguments mask_arguments(const Problem& problem);
bool visible(const Problem& problem, Index batch, Index query, Index key);

// ALiBi's slope of `head`, 2^(-8 (head+1) / heads) (Press et al. 2022), rounded to bf16 so that
// slope * distance is exact in f32. The bias is -slope * |query - key|.
double alibi_slope(const Problem& problem, Index head);

}  // namespace shardproof
