#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

constexpr Index kTokens = 5;
constexpr Index kWords = 7;
constexpr Index kFirst = 3;  // the number of the first word

const std::vector<DType> kDtypes{DType::kF64, DType::kF32, DType::kTf32, DType::kBf16, DType::kF16};

// Before, at the first, at the last and after the words that are held; and none.
const std::vector<double> kLabels{2, 3, 9, 10, -1};

void set(const View& view, const std::vector<double>& values) {
  for (Index i = 0; i < view.elements(); ++i) view.put(i, values[static_cast<std::size_t>(i)]);
}

struct Given {
  explicit Given(DType dtype)
      : type(accumulator_of(dtype)),
        logits(dtype, {kTokens, kWords}, 2),
        labels(DType::kF32, {kTokens}),
        maxima(type, {kTokens}) {
    logits.randomize(1);
    set(labels, kLabels);
    set(maxima, {3, 3, 3, 3, 3});
  }

  DType type;
  Owned logits, labels, maxima;
};

TEST(DeviceWords, RowMaximaAreThoseOfTheRow) {
  for (DType dtype : kDtypes) {
    Given given(dtype);
    std::vector<double> want;
    for (Index i = 0; i < kTokens; ++i) {
      double largest = -kInfinity;
      for (Index j = 0; j < kWords; ++j) largest = std::max(largest, given.logits.view.get({i, j}));
      want.push_back(largest);
    }
    make_device()->row_maxima(given.logits, given.maxima);
    EXPECT_EQ(values_of(given.maxima), want);
  }
}

TEST(DeviceWords, NoWordHasTheMaximumMinusInfinityAndNanIsOne) {
  Given given(DType::kF32);
  given.logits.view.set({2, 4}, kNan);
  make_device()->row_maxima(given.logits, given.maxima);
  for (Index i = 0; i < kTokens; ++i) EXPECT_EQ(std::isnan(given.maxima.view.at(i)), i == 2);
  make_device()->row_maxima(given.logits.view.slice(1, 0, 0), given.maxima);
  EXPECT_EQ(values_of(given.maxima), std::vector<double>(kTokens, -kInfinity));
}

TEST(DeviceWords, SumsAreThoseOfTheWordsHeld) {
  for (DType dtype : kDtypes) {
    Given given(dtype);
    Owned sums(given.type, {3, kTokens});
    std::vector<double> want(3 * kTokens);
    for (Index i = 0; i < kTokens; ++i) {
      const auto token = static_cast<std::size_t>(i);
      for (Index j = 0; j < kWords; ++j) {
        const double x = given.logits.view.get({i, j});
        want[token] += std::exp(x - 3);
        want[2 * kTokens + token] += x;
        if (kLabels[token] == static_cast<double>(kFirst + j)) want[kTokens + token] = x;
      }
    }
    EXPECT_NE(want[kTokens + 1], 0);
    EXPECT_EQ(want[kTokens], 0);
    make_device()->word_sums(given.logits, kFirst, given.labels, given.maxima, sums);
    expect_close(sums, want, tolerance(given.type));
  }
}

TEST(DeviceWords, LossesFollowFromTheSums) {
  for (double smoothing : {0.0, 0.25}) {
    for (DType type : {DType::kF64, DType::kF32}) {
      Given given(type);
      Owned sums(type, {3, kTokens}), lse(type, {kTokens}), loss(type, {kTokens}),
          totals(type, {2});
      sums.randomize(2);
      for (Index i = 0; i < kTokens; ++i) sums.view.set({0, i}, 2 + static_cast<double>(i));
      std::vector<double> want_lse, want_loss, want_totals{0, 4};
      for (Index i = 0; i < kTokens; ++i) {
        want_lse.push_back(3 + std::log(2 + static_cast<double>(i)));
        const double own = sums.view.get({1, i});
        const double mean = sums.view.get({2, i}) / 20;
        const bool none = kLabels[static_cast<std::size_t>(i)] < 0;
        want_loss.push_back(none ? 0 : want_lse.back() - (1 - smoothing) * own - smoothing * mean);
        want_totals[0] += want_loss.back();
      }
      make_device()->word_losses({smoothing, 20}, given.labels, given.maxima, sums, lse, loss,
                                 totals);
      expect_close(lse, want_lse, tolerance(type));
      expect_close(loss, want_loss, tolerance(type));
      expect_close(totals, want_totals, tolerance(type));
    }
  }
}

TEST(DeviceWords, GradientsAreProbabilitiesLessTargets) {
  for (double smoothing : {0.0, 0.25}) {
    for (DType dtype : kDtypes) {
      Given given(dtype);
      Owned dloss(given.type, {kTokens}), dmean(given.type, {1}), lse(given.type, {kTokens});
      Owned dlogits(dtype, {kTokens, kWords}, 3);
      dloss.randomize(4), dmean.randomize(5), lse.randomize(6);
      std::vector<double> want;
      for (Index i = 0; i < kTokens; ++i) {
        const double label = kLabels[static_cast<std::size_t>(i)];
        for (Index j = 0; j < kWords; ++j) {
          const double own = label == static_cast<double>(kFirst + j) ? 1 - smoothing : 0;
          const double p = std::exp(given.logits.view.get({i, j}) - lse.view.at(i));
          const double upstream = label < 0 ? 0 : dloss.view.at(i) + dmean.view.at(0);
          want.push_back((p - own - smoothing / 20) * upstream);
        }
      }
      make_device()->word_gradients({smoothing, 20}, given.logits, kFirst, given.labels, lse, dloss,
                                    dmean, dlogits);
      expect_close(dlogits, want, 20 * tolerance(dtype));
    }
  }
}

// Not 0 * NaN: what is not to be learned may be anything.
TEST(DeviceWords, WithoutALabelTheGradientIsZeroWhateverTheLogits) {
  Given given(DType::kF32);
  set(given.labels, std::vector<double>(kTokens, -1));
  for (Index i = 0; i < given.logits.view.elements(); ++i) given.logits.view.put(i, kNan);
  Owned vector(DType::kF32, {kTokens}), dlogits(DType::kF32, {kTokens, kWords});
  make_device()->word_gradients({0.5, 9}, given.logits, 0, given.labels, vector, vector,
                                vector.view.slice(0, 0, 1), dlogits);
  EXPECT_EQ(values_of(dlogits), std::vector<double>(kTokens * kWords, 0));
}

TEST(DeviceWords, QuotientsAndLowerLimitsAreElementWise) {
  for (DType dtype : {DType::kF64, DType::kF32}) {
    Owned target(dtype, {4}, 2), divisor(dtype, {4});
    set(target, {6, -1, 0, 5});
    set(divisor, {4, 2, 0, 1});
    make_device()->at_least(-0.5, target);
    EXPECT_EQ(values_of(target), (std::vector<double>{6, -0.5, 0, 5}));
    make_device()->divide(divisor, target);
    EXPECT_EQ(target.view.at(0), 1.5);
    EXPECT_EQ(target.view.at(1), -0.25);
    EXPECT_TRUE(std::isnan(target.view.at(2)));  // 0 / 0
    EXPECT_EQ(target.view.at(3), 5);
  }
}

}  // namespace
}  // namespace shardproof
