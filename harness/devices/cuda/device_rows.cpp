// The kernels of mlps, norms and losses.
#include "harness/devices/cuda/device.h"
#include "harness/devices/cuda/kernels/activation.h"
#include "harness/devices/cuda/kernels/norm.h"
#include "harness/devices/cuda/kernels/words.h"

namespace shardproof::SHARDPROOF_SIDE {

using kernels::matrix_of;
using kernels::vector_of;

void CudaDevice::activate(Activation activation, const View& z, const View& up, const View& a) {
  in_precision(z.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(z.elements(),
                  kernels::Activate<T>{activation, matrix_of(z), matrix_of(up), matrix_of(a)});
  });
}

void CudaDevice::activate_backward(Activation activation, const View& z, const View& up,
                                   const View& da, const View& dz, const View& dup) {
  in_precision(z.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(z.elements(),
                  kernels::ActivateBackward<T>{activation, matrix_of(z), matrix_of(up),
                                               matrix_of(da), matrix_of(dz), matrix_of(dup)});
  });
}

void CudaDevice::row_moments(Norm norm, const View& x, const View& moments) {
  require(moments.shape == Shape({2, x.shape[0]}), "row_moments: two moments a row");
  in_precision(moments.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(x.shape[0],
                  kernels::RowMoments<T>{norm == Norm::kLayer, matrix_of(x), matrix_of(moments)});
  });
}

void CudaDevice::normalize(double epsilon, const View& x, const View& moments, const View& gamma,
                           const View& beta, const View& z) {
  in_precision(moments.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(x.shape[0] * kThreads,
                  kernels::Normalize<T>{static_cast<T>(epsilon), matrix_of(x), matrix_of(moments),
                                        vector_of(gamma), vector_of(beta), matrix_of(z)});
  });
}

// The sums first: dx may lie where dz does.
void CudaDevice::normalize_backward(Norm norm, double epsilon, const View& x, const View& moments,
                                    const View& gamma, const View& dz, const View& dx,
                                    const View& sums) {
  require(sums.shape == Shape({2, x.shape[1]}), "normalize_backward: two sums a column");
  in_precision(sums.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T small = static_cast<T>(epsilon);
    queue_.launch(x.shape[1], kernels::NormalizeSums<T>{small, matrix_of(x), matrix_of(moments),
                                                        matrix_of(dz), matrix_of(sums)});
    queue_.launch(x.shape[0], kernels::NormalizeBackward<T>{
                                  norm == Norm::kLayer, small, matrix_of(x), matrix_of(moments),
                                  vector_of(gamma), matrix_of(dz), matrix_of(dx)});
  });
}

void CudaDevice::row_maxima(const View& from, const View& maxima) {
  in_precision(maxima.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(from.shape[0], kernels::RowMaxima<T>{matrix_of(from), vector_of(maxima)});
  });
}

void CudaDevice::word_sums(const View& logits, Index first, const View& labels, const View& maxima,
                           const View& sums) {
  require(sums.shape == Shape({3, logits.shape[0]}), "word_sums: three sums a row");
  in_precision(sums.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(logits.shape[0], kernels::WordSums<T>{matrix_of(logits), first, vector_of(labels),
                                                        vector_of(maxima), matrix_of(sums)});
  });
}

void CudaDevice::word_losses(const TargetRule& rule, const View& labels, const View& maxima,
                             const View& sums, const View& lse, const View& loss,
                             const View& totals) {
  in_precision(lse.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(1,
                  kernels::WordLosses<T>{static_cast<T>(rule.smoothing), static_cast<T>(rule.words),
                                         vector_of(labels), vector_of(maxima), matrix_of(sums),
                                         vector_of(lse), vector_of(loss), vector_of(totals)});
  });
}

void CudaDevice::word_gradients(const TargetRule& rule, const View& logits, Index first,
                                const View& labels, const View& lse, const View& dloss,
                                const View& dmean, const View& dlogits) {
  in_precision(lse.dtype, [&](auto zero) {
    using T = decltype(zero);
    queue_.launch(
        logits.elements(),
        kernels::WordGradients<T>{static_cast<T>(rule.smoothing), static_cast<T>(rule.words),
                                  matrix_of(logits), first, vector_of(labels), vector_of(lse),
                                  vector_of(dloss), vector_of(dmean), matrix_of(dlogits)});
  });
}

}  // namespace shardproof::SHARDPROOF_SIDE
