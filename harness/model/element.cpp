#include "harness/model/element.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/model/edit.h"
#include "harness/model/recipe.h"
#include "harness/model/require.h"
#include "harness/model/swamped.h"
#include "harness/model/word.h"

namespace shardproof {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Draws the elements of one tensor.
class Drawer {
 public:
  Drawer(const Problem& problem, const TensorSpec& spec)
      : problem_(problem), spec_(spec), recipe_(problem, spec) {
    // Weights shrink with the number of terms that their product sums; integers stay integers.
    if (spec.role == Role::kWeight && problem.data != DataRecipe::kInteger) {
      scale_ = 1 / std::sqrt(static_cast<double>(std::max<Index>(spec.shape[0], 1)));
    }
  }

  double operator()(Index position) {
    if (spec_.role == Role::kWord) return drawn_word(problem_, recipe_.bits(position));
    const double value = rounded(scale_ * recipe_(position));
    return problem_.edit == Edit::kNone ? value : edited(position, value);
  }

 private:
  // What the problem's edit makes of `value`; redrawn tokens are edited where they are drawn.
  double edited(Index position, double value) {
    switch (problem_.edit) {
      case Edit::kNone:
      case Edit::kFrom:
        return value;
      case Edit::kHiddenNan:
        return is_hidden(position) || is_padding(position) ? kNan : value;
      case Edit::kNanToken:
        return is_query() && recipe_.token(position) == problem_.edit_at ? kNan : value;
      case Edit::kUpstreamTwice:
        return spec_.kind == TensorKind::kUpstream ? rounded(2 * value) : value;
      case Edit::kValuesTwice:
        return spec_.value_power == 1 ? rounded(2 * value) : value;
      case Edit::kUniform:
        return uniform_attention(position, value);
      case Edit::kNudge:
        return nudged(position, value);
      case Edit::kSwamped:
        return swamped(spec_, position, recipe_.bits(drawn_at(spec_, position)));
    }
    return value;
  }

  // Activations are the queries of operators that project them.
  bool is_query() const {
    const bool has_tokens = spec_.token_dimension >= 0;
    return has_tokens && (spec_.role == Role::kQuery || spec_.role == Role::kActivation);
  }

  double uniform_attention(Index position, double value) const {
    if (spec_.role == Role::kQuery || spec_.role == Role::kScoreBias) return 0;
    if (spec_.role != Role::kValue) return value;
    return recipe_.token(position) % recipe_.row_length() == position % recipe_.row_length() ? 1
                                                                                             : 0;
  }

  double nudged(Index position, double value) const {
    const double step = scale_ * kNudges[static_cast<std::size_t>(problem_.edit_at)];
    if (spec_.kind != TensorKind::kInput) return value;
    return rounded(value + (mix(recipe_.bits(position)) & 1 ? step : -step));
  }

  // Whether this logit is of a column that is no word.
  bool is_padding(Index position) const {
    return spec_.role == Role::kActivation &&
           position % recipe_.row_length() >= recipe_.row_length() - problem_.padding;
  }

  // Whether no query of its batch entry sees this key: found once for the elements of a token that
  // are drawn one after another.
  bool is_hidden(Index position) {
    if (spec_.role != Role::kKey && spec_.role != Role::kValue) return false;
    const Index row = position / recipe_.token_stride();
    if (row == judged_row_) return hidden_;
    judged_row_ = row;
    const Index batch = row / std::max<Index>(recipe_.tokens(), 1);
    const Index key = recipe_.token(position);
    hidden_ = true;
    for (Index query = 0; query < problem_.q && hidden_; ++query) {
      hidden_ = !visible(problem_, batch, query, key);
    }
    return hidden_;
  }

  // Rounding by way of f32 is part of the definition of the value.
  double rounded(double value) const {
    switch (spec_.dtype) {
      case DType::kF64:
        return value;
      case DType::kF32:
        return static_cast<float>(value);
      case DType::kTf32:
        return tf32_value(static_cast<float>(value));
      case DType::kBf16:
        return bf16_value(bf16_bits(static_cast<float>(value)));
      case DType::kF16:
        return f16_value(f16_bits(static_cast<float>(value)));
    }
    return value;
  }

  const Problem& problem_;
  const TensorSpec& spec_;
  Recipe recipe_;
  double scale_ = 1;
  Index judged_row_ = -1;  // batch and token that hidden_ is about
  bool hidden_ = false;
};

}  // namespace

void fill_elements(const Problem& problem, const TensorSpec& spec, std::span<const Index> positions,
                   std::span<double> values) {
  require(positions.size() == values.size(), "one value a position");
  Drawer drawer(problem, spec);
  for (std::size_t i = 0; i < positions.size(); ++i) values[i] = drawer(positions[i]);
}

std::vector<double> whole_tensor(const Problem& problem, const TensorSpec& spec) {
  Drawer drawer(problem, spec);
  std::vector<double> values(static_cast<std::size_t>(spec.shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawer(static_cast<Index>(i));
  return values;
}

}  // namespace shardproof
