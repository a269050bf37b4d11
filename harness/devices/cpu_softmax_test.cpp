#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

constexpr Index kQueries = 5;
constexpr Index kKeys = 7;
constexpr Index kDim = 3;

Visibility visibility_where(const std::function<bool(Index, Index)>& sees) {
  Visibility visible;
  visible.queries = kQueries;
  visible.keys = kKeys;
  for (Index i = 0; i < kQueries; ++i) {
    for (Index j = 0; j < kKeys; ++j) visible.bytes.push_back(sees(i, j) ? 1 : 0);
  }
  return visible;
}

// Query 2 sees nothing, key 6 is seen by nobody.
Visibility causal_with_gaps() {
  return visibility_where([](Index i, Index j) { return i != 2 && j != 6 && j <= i + 2; });
}

struct Row {
  std::vector<double> p;  // normalised
  std::vector<double> logits;
  double lse = -kInfinity;
};

double logit(const ScoreRule& rule, double score, double bias, Index query, Index key) {
  double z = rule.scale * score;
  if (rule.softcap != 0) z = rule.softcap * std::tanh(z / rule.softcap);
  const Index distance = std::abs(rule.queries.at(query) - rule.keys.at(key));
  return z + bias - rule.alibi_slope * static_cast<double>(distance);
}

Row plain_row(const View& scores, const Visibility& visible, const View& bias,
              const ScoreRule& rule, Index i) {
  Row row;
  double total = 0;
  for (Index j = 0; j < kKeys; ++j) {
    const double added = bias.data == nullptr ? 0 : bias.get({i, j});
    row.logits.push_back(logit(rule, scores.get({i, j}), added, i, j));
    row.p.push_back(visible.row(i)[j] != 0 ? std::exp(row.logits.back()) : 0);
    total += row.p.back();
  }
  for (double& p : row.p) p = total == 0 ? 0 : p / total;
  row.lse = std::log(total);
  return row;
}

struct Setting {
  DType dtype = DType::kF32;
  ScoreRule rule;
  bool biased = false;
};

std::vector<Setting> settings() {
  std::vector<Setting> list;
  for (DType dtype : {DType::kF32, DType::kF64}) {
    list.push_back({dtype, {.scale = 0.7}, false});
    list.push_back({dtype, {.scale = 0.7, .softcap = 1.5}, true});
    list.push_back(
        {dtype, {.scale = -1.25, .alibi_slope = 0.25, .queries = {9, 1}, .keys = {2, 3}}, false});
  }
  return list;
}

class Softmax : public testing::TestWithParam<Setting> {
 protected:
  Softmax() { scores_.randomize(1), values_.randomize(2), bias_.randomize(3); }

  const DType dtype_ = GetParam().dtype;
  const ScoreRule rule_ = GetParam().rule;
  const Visibility visible_ = causal_with_gaps();
  const std::unique_ptr<Device> device_ = make_device();
  Owned scores_{dtype_, {kQueries, kKeys}, 2};
  Owned values_{dtype_, {kKeys, kDim}};
  Owned bias_{dtype_, {kQueries, kKeys}};
  const View bias_view_ = GetParam().biased ? bias_.view : View{};
};

// Feeds the keys in blocks of `block`, as a ring does.
TEST_P(Softmax, CarriedOverBlocksIsTheSoftmax) {
  for (Index block : {1, 3, 7}) {
    Owned maximum(dtype_, {kQueries}), normalizer(dtype_, {kQueries}),
        sum(dtype_, {kQueries, kDim});
    Owned out(dtype_, {kQueries, kDim}), lse(dtype_, {kQueries});
    device_->fill(maximum, -kInfinity), device_->fill(normalizer, 0), device_->fill(sum, 0);
    for (Index first = 0; first < kKeys; first += block) {
      const Index count = std::min(block, kKeys - first);
      Owned p(dtype_, {kQueries, count});
      device_->copy(scores_.view.slice(1, first, count), p);
      Visibility part;
      part.queries = kQueries, part.keys = count;
      for (Index i = 0; i < kQueries; ++i) {
        part.bytes.insert(part.bytes.end(), visible_.row(i) + first,
                          visible_.row(i) + first + count);
      }
      ScoreRule rule = rule_;
      rule.keys.first = rule_.keys.at(first);
      const View bias = bias_view_.data ? bias_view_.slice(1, first, count) : View{};
      // Hidden scores hold NaN: they are selected away, never multiplied by zero.
      for (Index i = 0; i < kQueries; ++i) {
        for (Index j = 0; j < count; ++j) {
          if (part.row(i)[j] == 0) p.view.set({i, j}, kNan);
        }
      }
      device_->online_softmax(p, part, bias, rule, dtype_, maximum, normalizer, sum);
      device_->gemm(p, values_.view.slice(0, first, count), sum, {.accumulate = true});
    }
    device_->finish_softmax(sum, maximum, normalizer, out, lse);
    std::vector<double> want_out, want_lse;
    for (Index i = 0; i < kQueries; ++i) {
      const Row row = plain_row(scores_, visible_, bias_view_, rule_, i);
      want_lse.push_back(row.lse);
      for (Index d = 0; d < kDim; ++d) {
        double value = 0;
        for (Index j = 0; j < kKeys; ++j) {
          value += row.p[static_cast<std::size_t>(j)] * values_.view.get({j, d});
        }
        want_out.push_back(value);
      }
    }
    ASSERT_EQ(want_lse[2], -kInfinity);
    expect_close(out, want_out, tolerance(dtype_));
    expect_close(lse, want_lse, tolerance(dtype_));
    for (Index d = 0; d < kDim; ++d) EXPECT_EQ(out.view.get({2, d}), 0);
  }
}

TEST_P(Softmax, BackwardMatchesPlainFormulas) {
  Owned p(dtype_, {kQueries, kKeys}), slope(dtype_, {kQueries, kKeys}), lse(dtype_, {kQueries});
  Owned gradient(dtype_, {kQueries, kKeys}), delta(dtype_, {kQueries});
  gradient.randomize(5), delta.randomize(6);
  device_->copy(scores_, p);
  std::vector<double> want_p, want_gradient, want_scaled;
  for (Index i = 0; i < kQueries; ++i) {
    const Row row = plain_row(scores_, visible_, bias_view_, rule_, i);
    lse.view.put(i, row.lse);
    for (Index j = 0; j < kKeys; ++j) {
      const double value = row.p[static_cast<std::size_t>(j)];
      const double bent = std::tanh(rule_.scale * scores_.view.get({i, j}) / rule_.softcap);
      const double factor = rule_.softcap == 0 ? 1 : 1 - bent * bent;
      want_p.push_back(value);
      want_gradient.push_back(value * (gradient.view.get({i, j}) - delta.view.at(i)));
      want_scaled.push_back(want_gradient.back() * factor);
      if (visible_.row(i)[j] != 0) continue;
      p.view.set({i, j}, kNan);
      gradient.view.set({i, j}, kNan);
    }
  }
  device_->probabilities(p, visible_, bias_view_, rule_, lse, slope);
  expect_close(p, want_p, tolerance(dtype_));
  device_->score_gradients(p, delta, dtype_, gradient, slope);
  expect_close(gradient, want_gradient, tolerance(dtype_));
  expect_close(slope, want_scaled, tolerance(dtype_));
  for (Index j = 0; j < kKeys; ++j) EXPECT_EQ(slope.view.get({2, j}), 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, Softmax, testing::ValuesIn(settings()));

TEST(OnlineSoftmax, SurvivesLogitsThatOverflowAnExponential) {
  const auto device = make_device();
  const Visibility visible = visibility_where([](Index, Index) { return true; });
  Owned p(DType::kF32, {kQueries, kKeys}), maximum(DType::kF32, {kQueries});
  Owned normalizer(DType::kF32, {kQueries}), sum(DType::kF32, {kQueries, kDim});
  device->fill(maximum, -kInfinity), device->fill(normalizer, 0), device->fill(sum, 1);
  device->fill(p, -1e4);
  device->online_softmax(p, visible, {}, {}, DType::kF32, maximum, normalizer, sum);
  expect_close(normalizer, std::vector<double>(kQueries, 7), 0);
  expect_close(sum, std::vector<double>(kQueries * kDim, 0), 0);  // exp(-inf - maximum) rescales
  device->fill(sum, 1);
  device->fill(p, 1e4);
  device->online_softmax(p, visible, {}, {}, DType::kF32, maximum, normalizer, sum);
  expect_close(normalizer, std::vector<double>(kQueries, 7), 0);
  expect_close(maximum, std::vector<double>(kQueries, 1e4), 0);
  expect_close(p, std::vector<double>(kQueries * kKeys, 1), 0);
}

TEST(OnlineSoftmax, RoundsProbabilitiesButNotTheirSum) {
  const auto device = make_device();
  const Visibility visible = visibility_where([](Index, Index) { return true; });
  Owned p(DType::kF32, {kQueries, kKeys}), maximum(DType::kF32, {kQueries});
  Owned normalizer(DType::kF32, {kQueries}), sum(DType::kF32, {kQueries, kDim});
  device->fill(maximum, -kInfinity), device->fill(normalizer, 0), device->fill(sum, 0);
  p.randomize(4);
  Owned exact(DType::kF32, {kQueries, kKeys});
  device->copy(p, exact);
  device->online_softmax(p, visible, {}, {}, DType::kBf16, maximum, normalizer, sum);
  for (Index i = 0; i < kQueries; ++i) {
    double total = 0;
    for (Index j = 0; j < kKeys; ++j) {
      const double value = std::exp(exact.view.get({i, j}) - maximum.view.at(i));
      total += value;
      EXPECT_EQ(p.view.get({i, j}), round_to(DType::kBf16, p.view.get({i, j})));
      EXPECT_NEAR(p.view.get({i, j}), value, value * 0x1p-8);
    }
    EXPECT_NEAR(normalizer.view.at(i), total, 1e-5);
  }
}

TEST(Drop, KeepsByGlobalPositions) {
  const auto device = make_device();
  const Dropout rule{.seed = 5,
                     .probability = 0.5,
                     .factor = 2,
                     .batch = 1,
                     .head = 3,
                     .queries = {4, 2},
                     .keys = {9, 3}};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    Owned weights(dtype, {kQueries, kKeys}, 2);
    weights.randomize(6);
    std::vector<double> want = values_of(weights);
    for (Index i = 0; i < kQueries; ++i) {
      for (Index j = 0; j < kKeys; ++j) {
        double& value = want[static_cast<std::size_t>(i * kKeys + j)];
        value = is_kept(5, 0.5, 1, 3, 4 + 2 * i, 9 + 3 * j) ? 2 * value : 0;
        if (value == 0) weights.view.set({i, j}, kNan);
      }
    }
    device->drop(rule, weights);
    expect_close(weights, want, 0);
  }
}

TEST(RowDelta, SubtractsTheGradientOfLse) {
  const auto device = make_device();
  Owned dout(DType::kBf16, {2, 3}), out(DType::kBf16, {2, 3}), dlse(DType::kF32, {2});
  Owned delta(DType::kF32, {2});
  dout.randomize(1), out.randomize(2), dlse.randomize(3);
  std::vector<double> want(2);
  for (Index i = 0; i < 6; ++i) {
    want[static_cast<std::size_t>(i / 3)] += dout.view.at(i) * out.view.at(i);
  }
  device->row_delta(dout, out, {}, delta);
  expect_close(delta, want, 4e-6);
  for (Index i = 0; i < 2; ++i) want[static_cast<std::size_t>(i)] -= dlse.view.at(i);
  device->row_delta(dout, out, dlse, delta);
  expect_close(delta, want, 4e-6);
}

}  // namespace
}  // namespace shardproof
