// The cpu device: OpenBLAS for matrix products, plain loops for the rest, computed in f32 (f64 for
// f64 views). Results depend on the arguments alone.
#pragma once

#include "harness/devices/cpu_elements.h"
#include "harness/run/device.h"

namespace shardproof {

class CpuDevice final : public Device {
 public:
  Meter& meter() override { return meter_; }

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
  Meter meter_;
  cpu::Scratch scratch_;
};

}  // namespace shardproof
