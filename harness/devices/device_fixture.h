// For tests of devices: views on memory of their own, filled with small random numbers, and plain
// double arithmetic to compare with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "harness/devices/devices.h"
#include "harness/model/element.h"

namespace shardproof {

// Of device `name`. What one over doubles is asked for is done when the call returns, so that
// tests can look at once.
inline std::unique_ptr<Device> make_device(std::string_view name) {
  std::unique_ptr<Device> made;
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  for (const DeviceEntry& entry : all_devices()) {
    if (entry.name == name) made = entry.make();
  }
  unsetenv("CUDA_LAUNCH_BLOCKING");
  return made;
}

// The device under test: these tests are built once for each that runs on every machine.
inline std::unique_ptr<Device> make_device() { return make_device(SHARDPROOF_DEVICE); }

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Numbers in (-2, 2), the same on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  double next() { return static_cast<double>(mix(++state_) >> 11) * 0x1p-51 - 2; }

 private:
  std::uint64_t state_;
};

// A tensor with its memory. Neighbours along the last dimension are `spacing` elements apart.
struct Owned {
  std::vector<double> memory;
  View view;

  Owned(DType dtype, const Shape& shape, Index spacing = 1)
      : memory(static_cast<std::size_t>(shape.elements() * spacing + 1), kNan) {
    view = View::dense(memory.data(), dtype, shape);
    for (int d = 0; d < shape.rank(); ++d) view.strides[static_cast<std::size_t>(d)] *= spacing;
    for (Index i = 0; i < view.elements(); ++i) view.put(i, kNan);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator const View&() const { return view; }  // NOLINT

  Owned& randomize(std::uint64_t seed) {
    Numbers numbers(seed);
    for (Index i = 0; i < view.elements(); ++i) view.put(i, numbers.next());
    return *this;
  }
};

inline std::vector<double> values_of(const View& view) {
  std::vector<double> values;
  for (Index i = 0; i < view.elements(); ++i) values.push_back(view.at(i));
  return values;
}

// How far apart two results may be: a few roundings of the target, and of the arithmetic.
inline double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : std::max(4e-6, 1.01 * format(dtype).u());
}

// |got - want| <= tolerance * (1 + |want|) everywhere; NaN fails.
inline void expect_close(const View& got, const std::vector<double>& want, double allowed) {
  ASSERT_EQ(got.elements(), static_cast<Index>(want.size()));
  for (Index i = 0; i < got.elements(); ++i) {
    const double expected = want[static_cast<std::size_t>(i)];
    if (std::isinf(expected)) {
      EXPECT_EQ(got.at(i), expected) << "element " << i;
    } else {
      EXPECT_LE(std::fabs(got.at(i) - expected), allowed * (1 + std::fabs(expected)))
          << "element " << i << " of " << got.shape.text() << ": " << got.at(i) << ", not "
          << expected;
    }
  }
}

}  // namespace shardproof
