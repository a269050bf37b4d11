// The kernels of attention.
#include "harness/devices/cuda/device.h"
#include "harness/devices/cuda/kernels/softmax_gradient.h"

namespace shardproof::SHARDPROOF_SIDE {
namespace {

using kernels::matrix_of;
using kernels::vector_of;

kernels::Line line_of(const Positions& positions) { return {positions.first, positions.step}; }

template <typename T>
kernels::Logits<T> logits_of(const View& scores, const View& bias, const ScoreRule& rule,
                             const std::uint8_t* visible) {
  return {matrix_of(scores),
          matrix_of(bias),
          visible,
          static_cast<T>(rule.scale),
          static_cast<T>(rule.softcap),
          static_cast<T>(rule.alibi_slope),
          line_of(rule.queries),
          line_of(rule.keys)};
}

}  // namespace

void CudaDevice::online_softmax(const View& scores, const Visibility& visible, const View& bias,
                                const ScoreRule& rule, DType probability, const View& maximum,
                                const View& normalizer, const View& accumulator) {
  require(scores.shape == Shape({visible.queries, visible.keys}), "online_softmax: shapes agree");
  in_precision(scores.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch_with(std::span(visible.bytes), visible.queries, [&](const std::uint8_t* seen) {
      return kernels::OnlineSoftmax<T>{logits_of<T>(scores, bias, rule, seen), probability,
                                       vector_of(maximum), vector_of(normalizer),
                                       matrix_of(accumulator)};
    });
  });
}

void CudaDevice::finish_softmax(const View& accumulator, const View& maximum,
                                const View& normalizer, const View& out, const View& lse) {
  in_precision(accumulator.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(accumulator.shape[0] * kThreads,
                  kernels::FinishSoftmax<T>{matrix_of(accumulator), vector_of(maximum),
                                            vector_of(normalizer), matrix_of(out), vector_of(lse)});
  });
}

void CudaDevice::row_delta(const View& dout, const View& out, const View& dlse, const View& delta) {
  in_precision(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(dout.shape[0], kernels::RowDelta<T>{matrix_of(dout), matrix_of(out),
                                                      vector_of(dlse), vector_of(delta)});
  });
}

void CudaDevice::probabilities(const View& scores, const Visibility& visible, const View& bias,
                               const ScoreRule& rule, const View& lse, const View& cap_slope) {
  require(scores.shape == Shape({visible.queries, visible.keys}), "probabilities: shapes agree");
  in_precision(scores.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch_with(std::span(visible.bytes), scores.elements(), [&](const std::uint8_t* seen) {
      return kernels::Probabilities<T>{logits_of<T>(scores, bias, rule, seen), vector_of(lse),
                                       matrix_of(cap_slope)};
    });
  });
}

void CudaDevice::score_gradients(const View& probability, const View& delta, DType rounding,
                                 const View& gradient, const View& cap_slope) {
  in_precision(gradient.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(gradient.elements(),
                  kernels::ScoreGradients<T>{matrix_of(probability), vector_of(delta), rounding,
                                             matrix_of(gradient), matrix_of(cap_slope)});
  });
}

void CudaDevice::drop(const Dropout& rule, const View& weights) {
  in_precision(weights.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(
        weights.elements(),
        kernels::Drop<T>{rule.seed, rule.probability, static_cast<T>(rule.factor), rule.batch,
                         rule.head, line_of(rule.queries), line_of(rule.keys), matrix_of(weights)});
  });
}

}  // namespace shardproof::SHARDPROOF_SIDE
