// Every kernel against the cpu device's, which shares no formula with it, over random shapes,
// strides and dtypes. That whole subjects are right on it, too, is for campaigns to say.
#include <deque>
#include <functional>

#include "harness/devices/device_fixture.h"

namespace shardproof {
namespace {

// The same arguments for both devices: a function of the seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(mix(seed)) {}

  Index below(Index bound) {
    state_ = mix(state_ + 1);
    return static_cast<Index>(state_ % static_cast<std::uint64_t>(bound));
  }
  // Mostly small, at times more than a block has threads.
  Index extent() { return below(4) == 0 ? below(70) : below(9); }
  Index even() { return 2 * (1 + below(4)); }
  double number() { return static_cast<double>(below(2000) - 1000) / 500; }
  bool coin() { return below(2) == 0; }

  // A view with elements apart or transposed, filled at random.
  View view(DType dtype, const Shape& shape) {
    Owned& owned = owned_.emplace_back(dtype, shape, 1 + below(2));
    owned.randomize(state_);
    return owned.view;
  }
  View matrix(DType dtype, Index rows, Index columns) {
    return coin() ? view(dtype, {rows, columns}) : view(dtype, {columns, rows}).transposed(0, 1);
  }
  DType storage() { return noted(all_dtypes()[static_cast<std::size_t>(below(5))]); }
  DType accumulator() { return noted(below(3) == 0 ? DType::kF64 : DType::kF32); }

  // Roundings that fall differently, to the coarsest type drawn so far; of f32 and f64 also the
  // order of sums.
  double tolerance() const { return coarsest_ > 0x1p-20 ? 4 * coarsest_ : 256 * coarsest_; }

  Visibility visibility(Index queries, Index keys) {
    Visibility visible{queries, keys, {}, {}, true, false};
    const Index blind = below(queries + 1);
    for (Index i = 0; i < queries * keys; ++i) {
      visible.bytes.push_back(i / std::max<Index>(keys, 1) != blind && below(3) > 0);
    }
    return visible;
  }
  ScoreRule rule() {
    return {.scale = number(),
            .softcap = coin() ? 0 : 1.5,
            .alibi_slope = coin() ? 0 : 0.25,
            .queries = {below(9), 1 + below(3)},
            .keys = {below(9), 1}};
  }

 private:
  DType noted(DType dtype) {
    coarsest_ = std::max(coarsest_, format(dtype).u());
    return dtype;
  }

  std::uint64_t state_;
  double coarsest_ = 0;
  std::deque<Owned> owned_;
};

using Outputs = std::vector<View>;
using Operation = std::function<Outputs(Device&, Draw&)>;

Outputs gemm(Device& device, Draw& draw) {
  const DType type = draw.storage();
  const Index m = draw.extent(), n = draw.extent(), k = draw.extent();
  const Gemm how{draw.coin(), draw.coin(), draw.number(), draw.coin(),
                 type == DType::kTf32 ? type : DType::kF32};
  const View a = how.transpose_a ? draw.matrix(type, k, m) : draw.matrix(type, m, k);
  const DType other = draw.coin() ? type : draw.accumulator();
  const View b = how.transpose_b ? draw.matrix(other, n, k) : draw.matrix(other, k, n);
  const View target = draw.matrix(draw.coin() ? type : draw.accumulator(), m, n);
  device.gemm(a, b, target, how);
  return {target};
}

Outputs elementwise(Device& device, Draw& draw) {
  const Shape shape{draw.extent(), 1 + draw.below(3), draw.extent()};
  const View from = draw.view(draw.storage(), shape);
  const View added = draw.view(draw.storage(), shape);
  const View copied = draw.view(draw.storage(), shape);
  const View divided = draw.view(draw.storage(), shape);
  const View kept = draw.view(draw.storage(), shape);
  const View rounded = draw.view(draw.storage(), shape);
  const View filled = draw.view(draw.storage(), shape);
  std::vector<std::uint8_t> keep;
  for (Index i = 0; i < shape[0]; ++i) keep.push_back(draw.coin());
  device.copy(from, copied), device.add(from, added), device.divide(copied, divided);
  device.copy_kept(from, keep, kept), device.round(rounded, draw.storage());
  device.fill(filled, draw.number() / 3), device.at_least(0.25, added), device.square_root(added);
  std::fill(keep.begin(), keep.end(), 1);  // too late to matter
  return {added, copied, divided, kept, rounded, filled};
}

Outputs columns(Device& device, Draw& draw) {
  const DType type = draw.storage();
  const Index rows = draw.extent(), count = draw.extent();
  const View target = draw.matrix(type, rows, count);
  const View sums = draw.view(draw.accumulator(), {count});
  device.add_row(draw.view(draw.storage(), {count}), target);
  device.column_sums(target, sums);
  return {target, sums};
}

Outputs rotate(Device& device, Draw& draw) {
  const Shape shape{1 + draw.below(2), draw.extent(), 1 + draw.below(3), draw.even()};
  Rotation how{10000, {}, draw.coin()};
  for (Index i = 0; i < shape[1]; ++i) how.positions.push_back(draw.below(1000));
  const View from = draw.view(draw.storage(), shape);
  const View to = draw.coin() ? from : draw.view(draw.storage(), shape);
  device.rotate(how, from, to);
  return {to};
}

Outputs forward_attention(Device& device, Draw& draw) {
  const DType type = draw.accumulator();
  const Index queries = draw.extent(), dim = 1 + draw.below(9);
  const View maximum = draw.view(type, {queries}), normalizer = draw.view(type, {queries});
  const View sum = draw.matrix(type, queries, dim);
  const View out = draw.matrix(draw.storage(), queries, dim), lse = draw.view(type, {queries});
  device.fill(maximum, -kInfinity), device.fill(normalizer, 0), device.fill(sum, 0);
  Outputs outputs{maximum, normalizer, sum, out, lse};
  for (int block = 0; block < 3; ++block) {
    const Index keys = draw.extent();
    const View scores = draw.matrix(type, queries, keys), values = draw.matrix(type, keys, dim);
    const View bias = draw.coin() ? View{} : draw.matrix(draw.storage(), queries, keys);
    const DType probability = draw.storage();
    device.online_softmax(scores, draw.visibility(queries, keys), bias, draw.rule(), probability,
                          maximum, normalizer, sum);
    device.gemm(scores, values, sum, {.accumulate = true});
    outputs.push_back(scores);
  }
  device.finish_softmax(sum, maximum, normalizer, out, lse);
  return outputs;
}

Outputs backward_attention(Device& device, Draw& draw) {
  const DType type = draw.accumulator();
  const Index queries = draw.extent(), keys = draw.extent(), dim = draw.extent();
  const View lse = draw.view(type, {queries}), delta = draw.view(type, {queries});
  const View scores = draw.matrix(type, queries, keys), slope = draw.matrix(type, queries, keys);
  const View gradient = draw.matrix(type, queries, keys);
  const View dlse = draw.coin() ? View{} : draw.view(draw.storage(), {queries});
  const View bias = draw.coin() ? View{} : draw.matrix(draw.storage(), queries, keys);
  device.row_delta(draw.matrix(draw.storage(), queries, dim),
                   draw.matrix(draw.storage(), queries, dim), dlse, delta);
  device.probabilities(scores, draw.visibility(queries, keys), bias, draw.rule(), lse, slope);
  device.score_gradients(scores, delta, draw.storage(), gradient, slope);
  device.drop({static_cast<std::uint64_t>(draw.below(99)), 0.4, 1.5, 1, 2, {3, 2}, {0, 1}}, scores);
  return {delta, scores, slope, gradient};
}

Outputs activations(Device& device, Draw& draw) {
  const DType type = draw.storage();
  const Index rows = draw.extent(), count = draw.extent();
  const auto activation = static_cast<Activation>(draw.below(4));
  const View z = draw.matrix(type, rows, count), a = draw.matrix(draw.storage(), rows, count);
  const bool gated = draw.coin();
  const View up = gated ? draw.matrix(type, rows, count) : View{};
  const View dz = draw.matrix(type, rows, count), dup = draw.matrix(type, rows, count);
  device.activate(activation, z, up, a);
  device.activate_backward(activation, z, up, a, dz, gated ? dup : View{});
  return {a, dz, dup};
}

Outputs norms(Device& device, Draw& draw) {
  const DType type = draw.accumulator(), io = draw.storage();
  const Index rows = draw.extent(), count = 1 + draw.extent();
  const Norm norm = draw.coin() ? Norm::kRms : Norm::kLayer;
  const View x = draw.matrix(io, rows, count), z = draw.matrix(io, rows, count);
  const View moments = draw.view(type, {2, rows}), gamma = draw.view(io, {count});
  const View beta = draw.coin() ? View{} : draw.view(io, {count});
  const View dx = draw.matrix(io, rows, count), sums = draw.view(type, {2, count});
  device.row_moments(norm, x, moments);
  device.normalize(0.1, x, moments, gamma, beta, z);
  device.normalize_backward(norm, 0.1, x, moments, gamma, z, dx, sums);
  return {moments, z, dx, sums};
}

Outputs words(Device& device, Draw& draw) {
  const DType type = draw.accumulator();
  const Index tokens = draw.extent(), count = 1 + draw.extent(), first = draw.below(5);
  const View logits = draw.matrix(draw.storage(), tokens, count),
             labels = draw.view(type, {tokens});
  for (Index i = 0; i < tokens; ++i) labels.put(i, static_cast<double>(draw.below(9)) - 1);
  const View maxima = draw.view(type, {tokens}), sums = draw.view(type, {3, tokens});
  const View lse = draw.view(type, {tokens}), loss = draw.view(type, {tokens});
  const View totals = draw.view(type, {2}), dlogits = draw.matrix(type, tokens, count);
  const TargetRule rule{draw.coin() ? 0 : 0.25, 9};
  device.row_maxima(logits, maxima);
  device.word_sums(logits, first, labels, maxima, sums);
  device.word_losses(rule, labels, maxima, sums, lse, loss, totals);
  device.word_gradients(rule, logits, first, labels, lse, loss, totals.slice(0, 0, 1), dlogits);
  return {maxima, sums, lse, loss, totals, dlogits};
}

class RandomShapes : public testing::TestWithParam<std::pair<std::string, Operation>> {};

TEST_P(RandomShapes, GiveWhatTheCpuDeviceGives) {
  const auto cpu = make_device("cpu");
  const auto cuda = make_device("cuda-double");
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Draw ours(seed), theirs(seed);
    const Outputs got = GetParam().second(*cuda, ours);
    const Outputs want = GetParam().second(*cpu, theirs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      for (Index e = 0; e < got[i].elements(); ++e) {
        const double x = got[i].at(e);
        const double y = want[i].at(e);
        const bool same = x == y || (std::isnan(x) && std::isnan(y));
        ASSERT_TRUE(same || std::fabs(x - y) <= ours.tolerance() * (1 + std::fabs(y)))
            << "seed " << seed << ", output " << i << ", element " << e << " of "
            << got[i].shape.text() << ": " << x << ", not " << y;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, RandomShapes,
                         testing::Values(std::pair{"Gemm", Operation(gemm)},
                                         std::pair{"Elements", Operation(elementwise)},
                                         std::pair{"Columns", Operation(columns)},
                                         std::pair{"Rotate", Operation(rotate)},
                                         std::pair{"Forward", Operation(forward_attention)},
                                         std::pair{"Backward", Operation(backward_attention)},
                                         std::pair{"Activations", Operation(activations)},
                                         std::pair{"Norms", Operation(norms)},
                                         std::pair{"Words", Operation(words)}),
                         [](const auto& each) { return each.param.first; });

}  // namespace
}  // namespace shardproof
