#include <bit>
#include <cstring>

#include "harness/devices/cpu_elements.h"
#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

TEST(DeviceElements, ConvertEverySixteenBitPatternAsTheModelDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float bf16 = cpu::Bf16::widen(half);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bf16), std::bit_cast<std::uint32_t>(bf16_value(half)));
    EXPECT_EQ(cpu::Bf16::narrow(bf16), bf16_bits(bf16));
    const float f16 = cpu::F16::widen(half);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(f16), std::bit_cast<std::uint32_t>(f16_value(half)));
    EXPECT_EQ(cpu::F16::narrow(f16), f16_bits(f16));
  }
}

// Numbers over all exponents, many of them in f16's range and half way between two f16 numbers.
float any_float(std::uint64_t i) {
  const auto bits = static_cast<std::uint32_t>(mix(i));
  if (i % 2 == 0) return std::bit_cast<float>(bits);
  const std::uint32_t exponent = 100 + bits % 44;
  const std::uint32_t fraction = (bits >> 8) & (i % 4 == 1 ? 0x7ff000u : 0x7fffffu);
  return std::bit_cast<float>((bits & 0x80000000u) | exponent << 23 | fraction);
}

TEST(DeviceElements, RoundEveryExponentAsTheModelDoes) {
  for (std::uint64_t i = 0; i < 400000; ++i) {
    const float value = any_float(i);
    EXPECT_EQ(cpu::F16::narrow(value), f16_bits(value)) << value;
    EXPECT_EQ(cpu::Bf16::narrow(value), bf16_bits(value)) << value;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(cpu::Tf32::narrow(value)),
              std::bit_cast<std::uint32_t>(tf32_value(value)))
        << value;
  }
}

// A value between two bf16 numbers that rounds differently when it goes through f32.
TEST(DeviceElements, RoundDoublesOnce) {
  const double value = 1 + 0x1p-8 + 0x1p-40;
  Owned from(DType::kF64, {1}), to(DType::kBf16, {1});
  from.view.put(0, value);
  make_device()->copy(from, to);
  EXPECT_EQ(to.view.at(0), 1 + 0x1p-7);
}

TEST(DeviceElementwise, CopiesBetweenAllTypesAndStrides) {
  const auto device = make_device();
  for (DType from_type : all_dtypes()) {
    for (DType to_type : all_dtypes()) {
      for (Index spacing : {1, 2}) {
        Owned from(from_type, {3, 2, 5}), to(to_type, {2, 5, 3}, spacing);
        from.randomize(7);
        const View target = to.view.transposed(0, 2).transposed(1, 2);  // [3, 2, 5]
        device->copy(from, target);
        for (Index i = 0; i < target.elements(); ++i) {
          EXPECT_EQ(target.at(i), round_to(to_type, from.view.at(i)));
        }
      }
    }
  }
}

TEST(DeviceElementwise, CopiesRowsLongerThanAPiece) {
  const auto device = make_device();
  Owned from(DType::kF32, {2, 1500}), to(DType::kBf16, {2, 1500}, 2);
  from.randomize(1);
  device->copy(from, to);
  for (Index i = 0; i < 3000; ++i)
    EXPECT_EQ(to.view.at(i), round_to(DType::kBf16, from.view.at(i)));
}

TEST(DeviceElementwise, CopiesNothingAndSingleElements) {
  const auto device = make_device();
  Owned none(DType::kF32, {3, 0, 2}), other(DType::kBf16, {3, 0, 2});
  device->copy(none, other);
  Owned scalar(DType::kF32, {}), target(DType::kF64, {});
  scalar.view.put(0, 3);
  device->copy(scalar, target);
  EXPECT_EQ(target.view.at(0), 3);
}

TEST(DeviceElementwise, FillsOnlyTheView) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned all(dtype, {4, 5});
    all.randomize(1);
    const auto before = values_of(all);
    device->fill(all.view.slice(0, 1, 2).slice(1, 2, 2), -kInfinity);
    for (Index i = 0; i < 20; ++i) {
      const bool inside = i / 5 >= 1 && i / 5 < 3 && i % 5 >= 2 && i % 5 < 4;
      EXPECT_EQ(all.view.at(i), inside ? -kInfinity : before[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(DeviceElementwise, AddsAndRoundsOnce) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned addend(DType::kF32, {3, 4}, 2), sum(dtype, {3, 4});
    addend.randomize(1), sum.randomize(2);
    const auto before = values_of(sum);
    device->add(addend, sum);
    for (Index i = 0; i < 12; ++i) {
      const double exact = before[static_cast<std::size_t>(i)] + addend.view.at(i);
      const double in_f32 = dtype == DType::kF64 ? exact : static_cast<float>(exact);
      EXPECT_EQ(sum.view.at(i), round_to(dtype, in_f32));
    }
  }
}

TEST(DeviceElementwise, RoundsInPlace) {
  const auto device = make_device();
  for (DType dtype : {DType::kTf32, DType::kBf16, DType::kF16}) {
    Owned values(DType::kF32, {3, 7}, 2);
    values.randomize(5);
    const auto before = values_of(values);
    device->round(values, dtype);
    for (Index i = 0; i < 21; ++i) {
      EXPECT_EQ(values.view.at(i), round_to(dtype, before[static_cast<std::size_t>(i)]));
    }
    EXPECT_NE(values_of(values), before);
  }
}

TEST(DeviceElementwise, TakesSquareRoots) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned values(dtype, {2, 3}, 2);
    for (Index i = 0; i < 6; ++i) values.view.put(i, static_cast<double>(i * i));
    device->square_root(values);
    EXPECT_EQ(values_of(values), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(DeviceElementwise, CopyKeptNeverReadsWhatItDrops) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned from(dtype, {5, 2, 3}), to(dtype, {5, 2, 3});
    from.randomize(1);
    const std::vector<std::uint8_t> keep{0, 1, 1, 0, 1};
    for (Index i : {0, 3}) {
      for (Index j = 0; j < 6; ++j) from.view.put(i * 6 + j, kNan);
    }
    device->copy_kept(from, keep, to);
    for (Index i = 0; i < 30; ++i) {
      EXPECT_EQ(to.view.at(i), keep[static_cast<std::size_t>(i / 6)] ? from.view.at(i) : 0);
    }
  }
}

TEST(DeviceElementwise, AddsARowToEveryRow) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned bias(dtype, {3}), target(DType::kF32, {4, 3}, 2);
    bias.randomize(1), target.randomize(2);
    std::vector<double> want = values_of(target);
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] += bias.view.at(static_cast<Index>(i) % 3);
    device->add_row(bias, target);
    expect_close(target, want, 1e-6);
  }
}

TEST(DeviceElementwise, SumsColumnsInTheWideTypeAndOverwrites) {
  const auto device = make_device();
  Owned from(DType::kBf16, {300, 2}), sums(DType::kBf16, {2});  // sums hold NaN before
  for (Index i = 0; i < 600; ++i) from.view.put(i, 1);
  device->column_sums(from, sums);
  EXPECT_EQ(values_of(sums), (std::vector<double>{300, 300}));  // 256 if summed in bf16
  Owned none(DType::kF32, {0, 3}), zeros(DType::kF32, {3});
  device->column_sums(none, zeros);
  EXPECT_EQ(values_of(zeros), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace shardproof
