#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

constexpr Index kRows = 5;
constexpr Index kColumns = 7;
constexpr double kEpsilon = 0.125;
constexpr DType kDtypes[] = {DType::kF64, DType::kF32, DType::kTf32, DType::kBf16, DType::kF16};

// Moments of the rows of x, from the definition.
std::vector<double> plain_moments(Norm norm, const View& x) {
  const Index rows = x.shape[0];
  std::vector<double> moments(static_cast<std::size_t>(2 * rows));
  for (Index i = 0; i < rows; ++i) {
    double& mean = moments[static_cast<std::size_t>(i)];
    double& spread = moments[static_cast<std::size_t>(rows + i)];
    const double count = static_cast<double>(x.shape[1]);
    for (Index j = 0; j < x.shape[1] && norm == Norm::kLayer; ++j) mean += x.get({i, j}) / count;
    for (Index j = 0; j < x.shape[1]; ++j) spread += std::pow(x.get({i, j}) - mean, 2) / count;
  }
  return moments;
}

struct Given {
  Given(Norm norm, DType dtype)
      : type(accumulator_of(dtype)),
        x(dtype, {kRows, kColumns}, 2),
        gamma(dtype, {kColumns}),
        beta(dtype, {kColumns}),
        dz(dtype, {kRows, kColumns}, 3),
        moments(type, {2, kRows}) {
    x.randomize(1), gamma.randomize(2), beta.randomize(3), dz.randomize(4);
    make_device()->row_moments(norm, x, moments);
  }

  double factor(Index i) const { return 1 / std::sqrt(moments.view.get({1, i}) + kEpsilon); }
  double unit(Index i, Index j) const {
    return (x.view.get({i, j}) - moments.view.get({0, i})) * factor(i);
  }

  DType type;
  Owned x, gamma, beta, dz, moments;
};

TEST(DeviceNorm, MomentsAreThoseOfTheRows) {
  for (DType dtype : kDtypes) {
    for (Norm norm : {Norm::kRms, Norm::kLayer}) {
      Given given(norm, dtype);
      expect_close(given.moments, plain_moments(norm, given.x), tolerance(given.type));
    }
  }
}

// In one pass the squares of 10000 swallow those of the distances.
TEST(DeviceNorm, AFarMeanDoesNotDrownTheVariance) {
  Given given(Norm::kLayer, DType::kF32);
  for (Index i = 0; i < given.x.view.elements(); ++i) {
    given.x.view.put(i, 10000 + static_cast<double>(i % kColumns));
  }
  make_device()->row_moments(Norm::kLayer, given.x, given.moments);
  EXPECT_EQ(given.moments.view.get({0, 0}), 10003);
  EXPECT_EQ(given.moments.view.get({1, 0}), 4);
}

TEST(DeviceNorm, RowsAreCentredScaledAndShifted) {
  for (DType dtype : kDtypes) {
    for (bool has_beta : {false, true}) {
      Given given(Norm::kLayer, dtype);
      Owned z(dtype, {kRows, kColumns}, 3);
      std::vector<double> want;
      for (Index i = 0; i < kRows; ++i) {
        for (Index j = 0; j < kColumns; ++j) {
          want.push_back(given.unit(i, j) * given.gamma.view.at(j) +
                         (has_beta ? given.beta.view.at(j) : 0));
        }
      }
      const View beta = has_beta ? given.beta.view : View{};
      make_device()->normalize(kEpsilon, given.x, given.moments, given.gamma, beta, z);
      expect_close(z, want, 10 * tolerance(dtype));
    }
  }
}

TEST(DeviceNorm, GradientsFollowTheDefinition) {
  for (DType dtype : kDtypes) {
    for (Norm norm : {Norm::kRms, Norm::kLayer}) {
      Given given(norm, dtype);
      Owned dx(dtype, {kRows, kColumns}, 2), sums(given.type, {2, kColumns});
      std::vector<double> want, want_sums(2 * kColumns);
      for (Index i = 0; i < kRows; ++i) {
        double mean = 0;
        double product = 0;
        for (Index j = 0; j < kColumns; ++j) {
          const double up = given.dz.view.get({i, j});
          const double w = up * given.gamma.view.at(j) / static_cast<double>(kColumns);
          if (norm == Norm::kLayer) mean += w;
          product += w * given.unit(i, j);
          want_sums[static_cast<std::size_t>(j)] += up * given.unit(i, j);
          want_sums[static_cast<std::size_t>(kColumns + j)] += up;
        }
        for (Index j = 0; j < kColumns; ++j) {
          const double w = given.dz.view.get({i, j}) * given.gamma.view.at(j);
          want.push_back(given.factor(i) * (w - mean - given.unit(i, j) * product));
        }
      }
      make_device()->normalize_backward(norm, kEpsilon, given.x, given.moments, given.gamma,
                                        given.dz, dx, sums);
      expect_close(dx, want, 20 * tolerance(dtype));
      expect_close(sums, want_sums, 20 * tolerance(given.type));
    }
  }
}

TEST(DeviceNorm, NoRowsAndNoColumnsGiveSumsOfZero) {
  for (Index rows : {0, 3}) {
    const Index columns = 3 - rows;
    Owned x(DType::kF32, {rows, columns}), gamma(DType::kF32, {columns});
    Owned moments(DType::kF32, {2, rows}), sums(DType::kF32, {2, columns});
    make_device()->row_moments(Norm::kLayer, x, moments);
    make_device()->normalize_backward(Norm::kLayer, kEpsilon, x, moments, gamma, x, x, sums);
    EXPECT_EQ(values_of(sums), std::vector<double>(static_cast<std::size_t>(2 * columns), 0));
    EXPECT_EQ(values_of(moments), std::vector<double>(static_cast<std::size_t>(2 * rows), 0));
  }
}

}  // namespace
}  // namespace shardproof
