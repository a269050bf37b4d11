#include "harness/worlds/arrangement.h"

#include <gtest/gtest.h>

#include <set>

namespace shardproof {
namespace {

constexpr Views kArranged[] = {Views::kOffset, Views::kStrided, Views::kPacked, Views::kTransposed};

// Keys that count as many tokens as the queries, or not, and statistics in another dtype.
std::vector<TensorSpec> attention_specs(Index q, Index kv) {
  const DType io = DType::kBf16;
  return {{"q", TensorKind::kInput, Role::kQuery, io, {2, q, 6, 5}, 1},
          {"k", TensorKind::kInput, Role::kKey, io, {2, kv, 2, 5}, 1},
          {"v", TensorKind::kInput, Role::kValue, io, {2, kv, 2, 3}, 1},
          {"sink", TensorKind::kInput, Role::kScoreBias, io, {6}},
          {"dout", TensorKind::kUpstream, Role::kUpstream, io, {2, q, 6, 3}, 1},
          {"lse", TensorKind::kOutput, Role::kActivation, DType::kF32, {2, 6, q}, 2}};
}

std::vector<Shape> shapes_of(const std::vector<TensorSpec>& specs) {
  std::vector<Shape> shapes;
  for (const TensorSpec& spec : specs) shapes.push_back(spec.shape);
  return shapes;
}

// The elements of its allocation that a tensor is made of, in row-major order.
std::vector<Index> elements_of(const Shape& shape, const Place& place) {
  std::vector<Index> elements;
  for (Index flat = 0; flat < shape.elements(); ++flat) {
    const auto at = shape.coordinates(flat);
    Index element = place.first;
    for (std::size_t d = 0; d < static_cast<std::size_t>(shape.rank()); ++d) {
      element += at[d] * place.strides[d];
    }
    elements.push_back(element);
  }
  return elements;
}

TEST(Arrangement, NoTwoTensorsShareAnElementAndNoneLeavesItsAllocation) {
  for (Views views : kArranged) {
    for (Index q : {0, 1, 4}) {
      const auto specs = attention_specs(q, 4);
      const auto shapes = shapes_of(specs);
      const Arrangement arrangement = arranged(views, specs, shapes);
      std::set<std::pair<std::size_t, Index>> taken;
      for (std::size_t t = 0; t < specs.size(); ++t) {
        const Place& place = arrangement.places[t];
        EXPECT_EQ(specs[arrangement.owners[place.allocation]].dtype, specs[t].dtype);
        for (Index element : elements_of(shapes[t], place)) {
          EXPECT_GE(element, 0);
          EXPECT_LT(element, arrangement.elements[place.allocation]) << specs[t].name;
          EXPECT_TRUE(taken.insert({place.allocation, element}).second) << specs[t].name;
        }
      }
    }
  }
}

TEST(Arrangement, AnOffsetLeavesTensorsDense) {
  const auto specs = attention_specs(4, 4);
  const Arrangement arrangement = arranged(Views::kOffset, specs, shapes_of(specs));
  EXPECT_EQ(arrangement.places[1].first % 2, 1);
  EXPECT_EQ(arrangement.places[1].strides[0], 4 * 2 * 5);
  EXPECT_GT(arrangement.elements[1], arrangement.places[1].first + 2 * 4 * 2 * 5);
}

TEST(Arrangement, EveryDimensionOfAStridedTensorHasAGap) {
  const auto specs = attention_specs(4, 4);
  const auto shapes = shapes_of(specs);
  const Arrangement arrangement = arranged(Views::kStrided, specs, shapes);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const auto& strides = arrangement.places[t].strides;
    for (int d = 1; d < shapes[t].rank(); ++d) {
      const auto u = static_cast<std::size_t>(d);
      EXPECT_GT(strides[u - 1], shapes[t][d] * strides[u]) << specs[t].name << " " << d;
    }
  }
  EXPECT_GT(arrangement.places[3].strides[0], 1);  // a vector
}

TEST(Arrangement, QueriesKeysAndValuesOfAsManyTokensShareRows) {
  const auto specs = attention_specs(4, 4);
  const Arrangement all = arranged(Views::kPacked, specs, shapes_of(specs));
  const Index row = 6 * 5 + 2 * 5 + 2 * 3;
  for (std::size_t t : {0u, 1u, 2u}) {
    EXPECT_EQ(all.places[t].allocation, 0u);
    EXPECT_EQ(all.places[t].strides[1], row);
    EXPECT_EQ(all.places[t].strides[0], 4 * row);
  }
  EXPECT_EQ(all.places[1].first, 6 * 5);
  EXPECT_EQ(all.places[2].first, 6 * 5 + 2 * 5);
  EXPECT_NE(all.places[4].allocation, 0u);  // an upstream gradient of as many tokens
  const auto cross = attention_specs(3, 4);
  const Arrangement keys = arranged(Views::kPacked, cross, shapes_of(cross));
  EXPECT_NE(keys.places[0].allocation, keys.places[1].allocation);
  EXPECT_EQ(keys.places[1].allocation, keys.places[2].allocation);
  EXPECT_EQ(keys.places[1].strides[1], 2 * 5 + 2 * 3);
}

TEST(Arrangement, TransposedTensorsHaveHeadsBeforeTokensAndColumnsBeforeRows) {
  const std::vector<TensorSpec> specs{
      {"q", TensorKind::kInput, Role::kQuery, DType::kF32, {2, 4, 6, 5}, 1},
      {"x", TensorKind::kInput, Role::kActivation, DType::kF32, {2, 4, 3}, 1},
      {"w", TensorKind::kInput, Role::kWeight, DType::kF32, {4, 3}}};
  const Arrangement turned = arranged(Views::kTransposed, specs, shapes_of(specs));
  EXPECT_EQ(turned.places[0].strides, (std::array<Index, 6>{120, 5, 20, 1}));
  EXPECT_EQ(turned.places[1].strides, (std::array<Index, 6>{3, 6, 1}));
  EXPECT_EQ(turned.places[2].strides, (std::array<Index, 6>{1, 4}));
}

}  // namespace
}  // namespace shardproof
