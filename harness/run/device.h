// Device: where arithmetic happens. Matrix products and the few row-wise kernels that subjects
// need, over strided views. 16-bit and tf32 operands are converted to f32, products accumulate in
// f32 (f64 when the operands are f64); results are rounded once when the target is narrower.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/model/problem.h"
#include "harness/run/carrier.h"
#include "harness/run/store.h"
#include "harness/run/tensor.h"

namespace shardproof {

// Arithmetic done by one rank, read by cost properties and by virtual time.
struct Meter {
  double multiply_adds = 0;   // of matrix products
  double score_elements = 0;  // elements of q k^T computed in the forward pass (by the subject)
  double seconds = 0;         // virtual time spent computing
};

struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  bool accumulate = false;      // target += alpha a b instead of target = alpha a b
  DType operand = DType::kF32;  // kTf32: both operands are rounded to tf32 first
};

// Global positions of equally spaced tokens.
struct Positions {
  Index first = 0;
  Index step = 1;

  Index at(Index local) const { return first + local * step; }
};

// How scores become logits: z = scale * s, then cap * tanh(z / cap) where there is a softcap, then
// plus the bias, if any, minus alibi_slope * |query position - key position|.
struct ScoreRule {
  double scale = 1;
  double softcap = 0;
  double alibi_slope = 0;
  Positions queries = {};
  Positions keys = {};
};

// Which query sees which key, a byte each, row-major: 0 hidden, 1 visible.
struct Visibility {
  Index queries = 0;
  Index keys = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> key_seen;  // whether any of the queries sees the key
  bool any = false;
  bool every_key_seen = false;

  const std::uint8_t* row(Index query) const { return bytes.data() + query * keys; }
};

// Dropout of the weights of one head for a pair of chunks: kept ones are multiplied by `factor`.
struct Dropout {
  std::uint64_t seed = 0;
  double probability = 0;
  double factor = 1;
  Index batch = 0;
  Index head = 0;
  Positions queries = {};
  Positions keys = {};
};

// How far rotary positions turn each pair of elements of a token (rotary_turn in problem.h).
struct Rotation {
  double base = 1;
  std::vector<Index> positions;  // of each token
  bool back = false;             // by the opposite angle: as gradients are turned
};

// The target of a token: its label has 1 - smoothing, and all `words` share the rest evenly.
struct TargetRule {
  double smoothing = 0;
  Index words = 1;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Meter& meter() = 0;

  // Where tensors that it computes on must lie; null: anywhere.
  virtual Store* store() { return nullptr; }

  // Returns when everything asked for is done: worlds call it before they look at or move data.
  // What a device asked for later does is never seen before. Throws what went wrong meanwhile.
  virtual void settle() {}

  // Has it call `meanwhile` over and over whenever it waits for its own work; whatever that throws
  // ends the wait. Empty: it just waits.
  virtual void wait_with(std::function<void()> /*meanwhile*/) {}

  // What moves data to devices of the same kind without the host; null: nothing does. The device
  // must outlive it.
  virtual std::unique_ptr<Carrier> make_carrier() { return nullptr; }

  // target [m, n] (+)= alpha * a [m, k] * b [k, n]; transposes as in `how`. Any strides; k may be
  // 0. Without `accumulate` the target is not read.
  virtual void gemm(const View& a, const View& b, const View& target, const Gemm& how) = 0;

  // Element-wise; shapes equal, dtypes and strides any.
  virtual void copy(const View& from, const View& to) = 0;
  virtual void fill(const View& target, double value) = 0;
  virtual void add(const View& from, const View& target) = 0;
  virtual void round(const View& target, DType dtype) = 0;  // in place, to a narrower dtype

  // `from` to `to`, except that entries of dimension 0 whose `keep` byte is 0 are not read and
  // become zero.
  virtual void copy_kept(const View& from, std::span<const std::uint8_t> keep, const View& to) = 0;

  // Element-wise: target = target / divisor, and target = the larger of itself and `least`.
  virtual void divide(const View& divisor, const View& target) = 0;
  virtual void at_least(double least, const View& target) = 0;

  // Element-wise, in place.
  virtual void square_root(const View& target) = 0;

  // target [rows, n] += bias [n]
  virtual void add_row(const View& bias, const View& target) = 0;

  // sums [n] = column sums of `from` [rows, n]
  virtual void column_sums(const View& from, const View& sums) = 0;

  // One online-softmax step (Milakov & Gimelshein 2018; Dao et al. 2022, algorithm 1).
  // scores [n, m]: in q k^T, out exp(z - maximum) (0 where hidden), rounded to `probability`.
  // bias [n, m] is added to the logits; bias.data may be null. maximum, normalizer [n] and
  // accumulator [n, dv] are updated and rescaled; the caller then adds P v to the accumulator.
  virtual void online_softmax(const View& scores, const Visibility& visible, const View& bias,
                              const ScoreRule& rule, DType probability, const View& maximum,
                              const View& normalizer, const View& accumulator) = 0;

  // out [n, dv] = accumulator / normalizer, lse [n] = maximum + log(normalizer); rows with no
  // visible key give out 0 and lse -inf.
  virtual void finish_softmax(const View& accumulator, const View& maximum, const View& normalizer,
                              const View& out, const View& lse) = 0;

  // delta [n] = rowsum(dout * out) - dlse; dlse.data may be null
  virtual void row_delta(const View& dout, const View& out, const View& dlse,
                         const View& delta) = 0;

  // scores [n, m]: in q k^T, out P = exp(z - lse), 0 where hidden. cap_slope [n, m] receives the
  // derivative of the softcap (1 without one).
  virtual void probabilities(const View& scores, const Visibility& visible, const View& bias,
                             const ScoreRule& rule, const View& lse, const View& cap_slope) = 0;

  // gradient [n, m]: in dP, out P * (dP - delta), the gradient of the logits after the softcap.
  // cap_slope [n, m]: in the derivative of the softcap, out gradient * cap_slope rounded to
  // `rounding`. Where P is 0 both become 0, whatever dP holds.
  virtual void score_gradients(const View& probability, const View& delta, DType rounding,
                               const View& gradient, const View& cap_slope) = 0;

  // weights [n, m]: kept elements times the factor, the others 0 whatever they hold.
  virtual void drop(const Dropout& rule, const View& weights) = 0;

  // `from` [batch, tokens, heads, dim] to `to`, which may be the same, each token turned.
  virtual void rotate(const Rotation& how, const View& from, const View& to) = 0;

  // a = act(z), or act(z) * up when up.data is not null. Shapes [rows, n].
  virtual void activate(Activation activation, const View& z, const View& up, const View& a) = 0;

  // dz = da * act'(z) (* up); dup = da * act(z) when up.data is not null. Shapes [rows, n].
  virtual void activate_backward(Activation activation, const View& z, const View& up,
                                 const View& da, const View& dz, const View& dup) = 0;

  // moments [2, n] of the rows of x [n, m]: the mean, 0 for kRms, and the mean square of the
  // distances from it.
  virtual void row_moments(Norm norm, const View& x, const View& moments) = 0;

  // z [n, m] = (x - mean) / sqrt(mean square + epsilon) * gamma [m] + beta [m] (Ba et al. 2016;
  // Zhang & Sennrich 2019); beta.data may be null.
  virtual void normalize(double epsilon, const View& x, const View& moments, const View& gamma,
                         const View& beta, const View& z) = 0;

  // The gradients of that: dx [n, m], and sums [2, m] over the rows: of dz times the normalised x,
  // for gamma, and of dz, for beta. kRms: the mean is no function of x.
  virtual void normalize_backward(Norm norm, double epsilon, const View& x, const View& moments,
                                  const View& gamma, const View& dz, const View& dx,
                                  const View& sums) = 0;

  // maxima [n] = the largest of each row of `from` [n, m]: -inf where m is 0, NaN where one is.
  virtual void row_maxima(const View& from, const View& maxima) = 0;

  // The next three: logits [n, m] of words first, first + 1, ...; labels [n] are numbers of words,
  // below 0 where a token has none. sums [3, n] = sum of exp(logit - maximum), the label's logit (0
  // where it is none of these words), sum of the logits.
  virtual void word_sums(const View& logits, Index first, const View& labels, const View& maxima,
                         const View& sums) = 0;

  // Of sums over all words: lse [n], loss [n] (0 without a label), totals [2] = sum of the losses,
  // number of labels.
  virtual void word_losses(const TargetRule& rule, const View& labels, const View& maxima,
                           const View& sums, const View& lse, const View& loss,
                           const View& totals) = 0;

  // dlogits [n, m] = (exp(logit - lse) - target) * (dloss [n] + dmean [1]), 0 without a label.
  virtual void word_gradients(const TargetRule& rule, const View& logits, Index first,
                              const View& labels, const View& lse, const View& dloss,
                              const View& dmean, const View& dlogits) = 0;
};

}  // namespace shardproof
