#include <array>

#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

struct Extents {
  Index m, n, k;
};

constexpr std::array<Extents, 9> kExtents{{{1, 1, 1},
                                           {2, 3, 4},
                                           {1, 5, 7},
                                           {5, 1, 3},
                                           {3, 4, 1},
                                           {8, 8, 8},
                                           {17, 9, 33},
                                           {33, 31, 16},
                                           {64, 65, 40}}};

// target (+)= alpha a b in double, with operands as `operand` rounds them.
std::vector<double> plain_product(const View& a, const View& b, const View& target,
                                  const Gemm& how) {
  const View left = how.transpose_a ? a.transposed(0, 1) : a;
  const View right = how.transpose_b ? b.transposed(0, 1) : b;
  const auto operand = [&](double value) {
    return how.operand == DType::kTf32 ? round_to(DType::kTf32, value) : value;
  };
  std::vector<double> result;
  for (Index i = 0; i < target.shape[0]; ++i) {
    for (Index j = 0; j < target.shape[1]; ++j) {
      double sum = 0;
      for (Index p = 0; p < left.shape[1]; ++p) {
        sum += operand(left.get({i, p})) * operand(right.get({p, j}));
      }
      result.push_back(how.alpha * sum + (how.accumulate ? target.get({i, j}) : 0));
    }
  }
  return result;
}

Shape shape_for(bool transposed, Index rows, Index columns) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

class GemmOf : public testing::TestWithParam<DType> {};

TEST_P(GemmOf, MatchesPlainLoopsInEveryOrientation) {
  const auto device = make_device();
  const DType dtype = GetParam();
  for (const Extents& e : kExtents) {
    for (int bits = 0; bits < 16; ++bits) {
      const Gemm how{.transpose_a = (bits & 1) != 0,
                     .transpose_b = (bits & 2) != 0,
                     .alpha = (bits & 4) != 0 ? 0.375 : 1,
                     .accumulate = (bits & 8) != 0,
                     .operand = dtype == DType::kTf32 ? dtype : DType::kF32};
      Owned a(dtype, shape_for(how.transpose_a, e.m, e.k));
      Owned b(dtype, shape_for(how.transpose_b, e.k, e.n));
      Owned target(dtype, {e.m, e.n});
      a.randomize(1), b.randomize(2);
      if (how.accumulate) target.randomize(3);
      const auto want = plain_product(a, b, target, how);
      device->gemm(a, b, target, how);
      expect_close(target, want, static_cast<double>(e.k) * 1e-6 + tolerance(dtype));
    }
  }
}

TEST_P(GemmOf, ReadsAndWritesAnyStrides) {
  const auto device = make_device();
  const DType dtype = GetParam();
  for (Index spacing : {1, 3}) {
    // Heads of [tokens, heads, dim]: rows are not adjacent.
    Owned q(dtype, {5, 3, 4}, spacing);
    Owned k(dtype, {6, 3, 4}, spacing);
    Owned scores(DType::kF32, {9, 7, 2}, spacing);
    q.randomize(1), k.randomize(2), scores.randomize(3);
    const View q1 = q.view.select(1, 1);
    const View k2 = k.view.select(1, 2);
    const View target = scores.view.select(2, 1).slice(0, 2, 5).slice(1, 1, 6);
    const Gemm how{.transpose_b = true};
    const auto want = plain_product(q1, k2, target, how);
    const auto before = values_of(scores);
    device->gemm(q1, k2, target, how);
    expect_close(target, want, 4e-6);
    // Everything round the target stays as it was.
    for (Index i = 0; i < 9; ++i) {
      for (Index j = 0; j < 7; ++j) {
        const bool inside = i >= 2 && i < 7 && j >= 1;
        if (!inside) {
          EXPECT_EQ(scores.view.get({i, j, 1}),
                    before[static_cast<std::size_t>((i * 7 + j) * 2 + 1)]);
        }
        EXPECT_EQ(scores.view.get({i, j, 0}), before[static_cast<std::size_t>((i * 7 + j) * 2)]);
      }
    }
    // A transposed target, and operands with swapped strides.
    Owned turned(DType::kF32, {6, 5}, spacing);
    device->gemm(q1, k2, turned.view.transposed(0, 1), how);
    expect_close(turned.view.transposed(0, 1), want, 4e-6);
    Owned again(DType::kF32, {5, 6}, spacing);
    device->gemm(q1.transposed(0, 1), k2.transposed(0, 1), again,
                 {.transpose_a = true, .transpose_b = false});
    expect_close(again, want, 4e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GemmOf,
                         testing::Values(DType::kF64, DType::kF32, DType::kTf32, DType::kBf16,
                                         DType::kF16),
                         [](const auto& tested) { return std::string(format(tested.param).name); });

TEST(Gemm, NeedsNoTermsToSum) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    Owned a(dtype, {3, 0}), b(dtype, {0, 2}), target(dtype, {3, 2});
    device->gemm(a, b, target, {});
    expect_close(target, std::vector<double>(6, 0), 0);
    target.randomize(1);
    const auto before = values_of(target);
    device->gemm(a, b, target, {.accumulate = true});
    EXPECT_EQ(values_of(target), before);
    Owned none(dtype, {0, 2});
    device->gemm(a.view.slice(0, 0, 0), b, none, {});
  }
}

TEST(Gemm, OverwritesNanUnlessItAccumulates) {
  const auto device = make_device();
  for (DType dtype : all_dtypes()) {
    for (const Extents& e : kExtents) {
      Owned a(dtype, {e.m, e.k}), b(dtype, {e.k, e.n}), target(dtype, {e.m, e.n});  // NaN
      a.randomize(1), b.randomize(2);
      device->gemm(a, b, target, {});
      for (double value : values_of(target)) EXPECT_TRUE(std::isfinite(value));
      target.view.put(0, kNan);
      device->gemm(a, b, target, {.accumulate = true});
      EXPECT_TRUE(std::isnan(target.view.at(0)));
    }
  }
}

TEST(Gemm, ColumnsDoNotDependOnOtherColumns) {
  const auto device = make_device();
  for (const Extents& e : kExtents) {
    Owned a(DType::kF32, {e.m, e.k}), b(DType::kF32, {e.k, e.n});
    Owned first(DType::kF32, {e.m, e.n}), second(DType::kF32, {e.m, e.n});
    a.randomize(1), b.randomize(2);
    device->gemm(a, b, first, {});
    for (Index p = 0; p < e.k; ++p) b.view.set({p, e.n - 1}, 1e30);
    device->gemm(a, b, second, {});
    for (Index i = 0; i < e.m; ++i) {
      for (Index j = 0; j + 1 < e.n; ++j)
        EXPECT_EQ(first.view.get({i, j}), second.view.get({i, j}));
    }
  }
}

TEST(Gemm, RoundsSixteenBitTargetsOnce) {
  const auto device = make_device();
  Owned a(DType::kBf16, {1, 3}), b(DType::kBf16, {3, 1}), target(DType::kBf16, {1, 1});
  // 256 + 1 + 1: rounded after each addition it would stay 256.
  a.view.put(0, 256), a.view.put(1, 1), a.view.put(2, 1);
  for (Index i = 0; i < 3; ++i) b.view.put(i, 1);
  device->gemm(a, b, target, {});
  EXPECT_EQ(target.view.at(0), 258);
  device->gemm(a, b, target, {.accumulate = true});
  EXPECT_EQ(target.view.at(0), 516);
}

TEST(Gemm, RoundsTf32OperandsOnlyWhenAsked) {
  const auto device = make_device();
  Owned a(DType::kF32, {1, 1}), b(DType::kF32, {1, 1}), target(DType::kF32, {1, 1});
  a.view.put(0, 1 + 0x1p-12), b.view.put(0, 1);
  device->gemm(a, b, target, {});
  EXPECT_EQ(target.view.at(0), 1 + 0x1p-12);
  device->gemm(a, b, target, {.operand = DType::kTf32});
  EXPECT_EQ(target.view.at(0), 1);
  EXPECT_EQ(a.view.at(0), 1 + 0x1p-12);  // the operand itself is not touched
}

TEST(Gemm, CountsMultiplyAdds) {
  const auto device = make_device();
  Owned a(DType::kF32, {2, 3}), b(DType::kF32, {3, 5}), target(DType::kF32, {2, 5});
  a.randomize(1), b.randomize(2);
  device->gemm(a, b, target, {});
  device->gemm(a, b, target, {.accumulate = true});
  EXPECT_EQ(device->meter().multiply_adds, 60);
}

TEST(GemmDeathTest, RefusesShapesThatDoNotAgree) {
  const auto device = make_device();
  Owned a(DType::kF32, {2, 3}), b(DType::kF32, {4, 5}), target(DType::kF32, {2, 5});
  EXPECT_DEATH(device->gemm(a, b, target, {}), "shapes agree");
}

}  // namespace
}  // namespace shardproof
