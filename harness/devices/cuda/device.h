// CudaDevice: Device on a GPU, or on its doubles (api.h): kernels (kernels/) and cuBLAS on one
// stream. Sums of products are f32 (f64 for f64) of whole operands: cuBLAS computes in pedantic
// mode, 16-bit operands go to it as they are, tf32 ones as f32 that were rounded to nearest before.
// No thread of the host waits before settle().
#pragma once

#include "harness/devices/cuda/kernels/elementwise.h"
#include "harness/devices/cuda/kernels/softmax.h"
#include "harness/devices/cuda/make_carrier.h"
#include "harness/devices/cuda/queue.h"
#include "harness/run/device.h"

namespace shardproof::SHARDPROOF_SIDE {

class CudaDevice final : public Device {
 public:
  Meter& meter() override { return meter_; }
  Store* store() override { return &queue_; }
  void settle() override { queue_.settle(); }
  void wait_with(std::function<void()> meanwhile) override {
    queue_.wait_with(std::move(meanwhile));
  }
  std::unique_ptr<Carrier> make_carrier() override { return make_nccl_carrier(*this, queue_); }

  void gemm(const View& a, const View& b, const View& target, const Gemm& how) override;

  void copy(const View& from, const View& to) override;
  void fill(const View& target, double value) override;
  void add(const View& from, const View& target) override;
  void round(const View& target, DType dtype) override;
  void copy_kept(const View& from, std::span<const std::uint8_t> keep, const View& to) override;
  void divide(const View& divisor, const View& target) override;
  void at_least(double least, const View& target) override;
  void square_root(const View& target) override;
  void add_row(const View& bias, const View& target) override;
  void column_sums(const View& from, const View& sums) override;

  void online_softmax(const View& scores, const Visibility& visible, const View& bias,
                      const ScoreRule& rule, DType probability, const View& maximum,
                      const View& normalizer, const View& accumulator) override;
  void finish_softmax(const View& accumulator, const View& maximum, const View& normalizer,
                      const View& out, const View& lse) override;
  void row_delta(const View& dout, const View& out, const View& dlse, const View& delta) override;
  void probabilities(const View& scores, const Visibility& visible, const View& bias,
                     const ScoreRule& rule, const View& lse, const View& cap_slope) override;
  void score_gradients(const View& probability, const View& delta, DType rounding,
                       const View& gradient, const View& cap_slope) override;
  void drop(const Dropout& rule, const View& weights) override;
  void rotate(const Rotation& how, const View& from, const View& to) override;

  void activate(Activation activation, const View& z, const View& up, const View& a) override;
  void activate_backward(Activation activation, const View& z, const View& up, const View& da,
                         const View& dz, const View& dup) override;

  void row_moments(Norm norm, const View& x, const View& moments) override;
  void normalize(double epsilon, const View& x, const View& moments, const View& gamma,
                 const View& beta, const View& z) override;
  void normalize_backward(Norm norm, double epsilon, const View& x, const View& moments,
                          const View& gamma, const View& dz, const View& dx,
                          const View& sums) override;

  void row_maxima(const View& from, const View& maxima) override;
  void word_sums(const View& logits, Index first, const View& labels, const View& maxima,
                 const View& sums) override;
  void word_losses(const TargetRule& rule, const View& labels, const View& maxima, const View& sums,
                   const View& lse, const View& loss, const View& totals) override;
  void word_gradients(const TargetRule& rule, const View& logits, Index first, const View& labels,
                      const View& lse, const View& dloss, const View& dmean,
                      const View& dlogits) override;

 private:
  void element_by_element(kernels::ElementOperation operation, const View& from, const View& to,
                          DType precision, double number = 0, DType dtype = DType::kF64);
  View operand(const View& view, DType dtype, DType rounding, std::size_t slot);
  View sum_of(const View& target, DType dtype, bool accumulate);
  void multiply(const View& a, const View& b, const View& target, const Gemm& how);

  Meter meter_;
  Queue queue_;
};

// Calls compute(T{}) with the type in which views of `dtype` are computed.
template <class Compute>
void in_precision(DType dtype, Compute compute) {
  if (dtype == DType::kF64) {
    compute(double{});
  } else {
    compute(float{});
  }
}

inline DType wider(DType a, DType b) {
  return a == DType::kF64 || b == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace shardproof::SHARDPROOF_SIDE
