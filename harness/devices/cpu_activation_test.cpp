#include <cmath>

#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

double plain(Activation activation, double z) {
  switch (activation) {
    case Activation::kRelu:
      return z > 0 ? z : 0;
    case Activation::kGelu:
      return z * 0.5 * std::erfc(-z * std::sqrt(0.5));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return kNan;
}

double plain_slope(Activation activation, double z) {
  if (activation == Activation::kRelu) return z > 0 ? 1 : 0;
  const double step = 1e-5;
  return (plain(activation, z + step) - plain(activation, z - step)) / (2 * step);
}

constexpr Activation kActivations[]{Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                    Activation::kSilu};

TEST(Activate, MatchesPlainFormulas) {
  const auto device = make_device();
  for (Activation activation : kActivations) {
    for (DType dtype : all_dtypes()) {
      Owned z(dtype, {4, 50}, 2), up(dtype, {4, 50}), a(dtype, {4, 50});
      z.randomize(1), up.randomize(2);
      for (Index i = 0; i < 8; ++i) z.view.put(i, 4.0 * static_cast<double>(i - 4));
      std::vector<double> want, gated;
      for (Index i = 0; i < 200; ++i) {
        want.push_back(plain(activation, z.view.at(i)));
        gated.push_back(want.back() * up.view.at(i));
      }
      device->activate(activation, z, {}, a);
      expect_close(a, want, tolerance(dtype));
      device->activate(activation, z, up, a);
      expect_close(a, gated, tolerance(dtype));
    }
  }
}

TEST(Activate, BackwardMatchesFiniteDifferences) {
  const auto device = make_device();
  for (Activation activation : kActivations) {
    for (DType dtype : all_dtypes()) {
      Owned z(dtype, {3, 50}), up(dtype, {3, 50}), da(dtype, {3, 50}), dz(dtype, {3, 50}, 2);
      Owned dup(dtype, {3, 50});
      z.randomize(1), up.randomize(2), da.randomize(3);
      std::vector<double> want, gated, want_up;
      for (Index i = 0; i < 150; ++i) {
        want.push_back(da.view.at(i) * plain_slope(activation, z.view.at(i)));
        gated.push_back(want.back() * up.view.at(i));
        want_up.push_back(da.view.at(i) * plain(activation, z.view.at(i)));
      }
      const double allowed = std::max(1e-8, tolerance(dtype));
      device->activate_backward(activation, z, {}, da, dz, {});
      expect_close(dz, want, allowed);
      device->activate_backward(activation, z, up, da, dz, dup);
      expect_close(dz, gated, allowed);
      expect_close(dup, want_up, allowed);
    }
  }
}

TEST(Activate, StaysFiniteWhereItsPartsOverflow) {
  const auto device = make_device();
  for (Activation activation : kActivations) {
    Owned z(DType::kF32, {1, 4}), a(DType::kF32, {1, 4}), da(DType::kF32, {1, 4});
    Owned dz(DType::kF32, {1, 4});
    const double large[]{1e30, 3e38, -1e30, -3e38};
    for (Index i = 0; i < 4; ++i) z.view.put(i, large[i]);
    device->fill(da, 1);
    device->activate(activation, z, {}, a);
    device->activate_backward(activation, z, {}, da, dz, {});
    for (Index i = 0; i < 4; ++i) {
      EXPECT_EQ(a.view.at(i), i < 2 ? z.view.at(i) : 0);
      EXPECT_EQ(dz.view.at(i), i < 2 ? 1 : 0);
    }
  }
}

// exp(-z) overflows in f32 at z = -88.7, long before silu(z) underflows.
TEST(Activate, SiluIsAccurateDownToTheSubnormals) {
  const auto device = make_device();
  Owned z(DType::kF32, {1, 30}), a(DType::kF32, {1, 30}), da(DType::kF32, {1, 30});
  Owned dz(DType::kF32, {1, 30});
  for (Index i = 0; i < 30; ++i) z.view.put(i, -75.3 - static_cast<double>(i));
  device->fill(da, 1);
  device->activate(Activation::kSilu, z, {}, a);
  device->activate_backward(Activation::kSilu, z, {}, da, dz, {});
  for (Index i = 0; i < 30; ++i) {
    const double at = z.view.at(i);
    const double tail = std::exp(at);
    EXPECT_NEAR(a.view.at(i), at * tail, at * tail * -1e-5 + 0x1p-149);
    EXPECT_NEAR(dz.view.at(i), (1 + at) * tail, (1 + at) * tail * -1e-5 + 0x1p-149);
  }
}

}  // namespace
}  // namespace shardproof
