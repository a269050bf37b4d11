#include "reference/attention_rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

Problem rotary_problem(Index q, Index kv, Index dim) {
  Problem p;
  p.op = &attention_operator();
  p.mask.mask = all_masks().front();
  p.dtype = DType::kF64;
  p.q = q;
  p.kv = kv;
  p.dim = p.dim_v = dim;
  p.rotary = 100;
  p.scale = 1;
  p.seed = 11;
  return p;
}

AttentionValues<double> values_of(const Problem& p) {
  const NamedTensors in = inputs_of(p);
  const auto get = [&](const char* name) { return std::span(in.find(name)->second); };
  return attention_values<double>(p, {get("q"), get("k"), get("v"), {}, get("dout"), get("dlse")});
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

// The score of vectors of length 1 at the same angle is the cosine of what lies between them.
TEST(AttentionRotary, AScoreDependsOnTheAngleBetweenTwoPositions) {
  Problem p = rotary_problem(1, 1, 4);
  p.positions = PositionIds::kCached;
  p.position_offset = 3;
  const std::vector<double> first_pair{1, 0, 0, 0}, second_pair{0, 0, 1, 0}, one(4, 1.0);
  const auto lse = [&](const std::vector<double>& q, const std::vector<double>& k) {
    return attention_values<double>(p, {q, k, one, {}, one, {}}).lse[0];
  };
  EXPECT_NEAR(lse(first_pair, first_pair), std::cos(3), 1e-15);
  EXPECT_NEAR(lse(second_pair, second_pair), std::cos(0.3), 1e-15);
  EXPECT_NEAR(lse(first_pair, second_pair), 0, 1e-15);
  // The query is turned ahead of the key: its b lies where the key's -a was.
  EXPECT_NEAR(lse({1, 0, 0, 0}, {0, 1, 0, 0}), std::sin(3), 1e-15);
}

TEST(AttentionRotary, OnlyDistancesMatter) {
  Problem p = rotary_problem(9, 9, 8);
  p.batch = 2;
  p.heads = 2;
  const auto at_home = values_of(p);
  p.positions = PositionIds::kOffset;
  p.position_offset = 1000;
  const auto shifted = values_of(p);
  EXPECT_LT(distance(at_home.out, shifted.out), 1e-11);
  EXPECT_LT(distance(at_home.lse, shifted.lse), 1e-11);
  EXPECT_LT(distance(at_home.dq, shifted.dq), 1e-10);
  EXPECT_LT(distance(at_home.dk, shifted.dk), 1e-10);
  EXPECT_LT(distance(at_home.dv, shifted.dv), 1e-11);
  p.positions = PositionIds::kCached;
  EXPECT_GT(distance(at_home.out, values_of(p).out), 1e-2);
  p.positions = PositionIds::kPermuted;
  EXPECT_GT(distance(at_home.out, values_of(p).out), 1e-2);
}

TEST(AttentionRotary, PackedDocumentsAreWhatTheyAreAlone) {
  Problem packed = rotary_problem(5, 5, 4);
  for (const Mask* mask : all_masks()) {
    if (mask->name == "documents") packed.mask = {mask, 2, 1};
  }
  packed.positions = PositionIds::kDocuments;
  NamedTensors in = inputs_of(packed);
  // The second document, tokens 2 to 4, by itself.
  Problem alone = rotary_problem(3, 3, 4);
  alone.mask = packed.mask;
  alone.mask.a = 3;
  alone.positions = PositionIds::kArange;
  const auto whole = [&](const char* name) { return std::span(in[name]); };
  const auto part = [&](const char* name) { return whole(name).subspan(2 * 4); };
  const auto all =
      attention_values<double>(packed, {whole("q"), whole("k"), whole("v"), {}, whole("dout"), {}});
  const auto one =
      attention_values<double>(alone, {part("q"), part("k"), part("v"), {}, part("dout"), {}});
  for (std::size_t i = 0; i < one.out.size(); ++i) {
    EXPECT_NEAR(all.out[i + 8], one.out[i], 1e-14);
    EXPECT_NEAR(all.dq[i + 8], one.dq[i], 1e-14);
    EXPECT_NEAR(all.dk[i + 8], one.dk[i], 1e-14);
  }
}

Contract exact_but(DType middle) {
  Contract contract;
  contract.precision.middle = middle;
  return contract;
}

// What is stored in bf16 may be off by 2^-9 of it.
TEST(AttentionRotary, ErrorsOfTurnedOperandsAreThoseOfTheirRoundings) {
  Problem p = rotary_problem(2, 1, 2);
  p.dtype = DType::kF32;
  const std::vector<double> q{3, 4, 3, 4}, k{1, 2}, v{1, 1}, dout{1, 1, 1, 1};
  const AttentionInputs<double> inputs{q, k, v, {}, dout, {}};
  const TurnedErrors narrow(p, inputs, exact_but(DType::kBf16).precision);
  const TurnedErrors wide(p, inputs, exact_but(DType::kF32).precision);
  // Token 0 is not turned, and 3 and 4 are numbers of bf16.
  EXPECT_EQ(narrow.q[0].worst, 0);
  EXPECT_EQ(narrow.k[1].worst, 0);
  const double x = std::fabs(3 * std::cos(1) - 4 * std::sin(1));
  EXPECT_GT(narrow.q[2].worst, x * 0x1p-9 / 2);
  EXPECT_LT(narrow.q[2].worst, x * 0x1p-8);
  EXPECT_NEAR(wide.q[2].worst, 0x1p-24 * (3 * std::cos(1) + 4 * std::sin(1) + x), 1e-12);
}

TEST(AttentionRotary, EqualPairsRoundAlike) {
  Problem p = rotary_problem(4, 1, 2);
  p.positions = PositionIds::kPermuted;  // no token at position 0
  p.dtype = DType::kF32;
  const Precision precision;
  const std::vector<double> k{1, 2}, v{1, 1}, dout(8, 1.0);
  Problem once = p;
  once.heads = 1;
  const std::vector<double> distinct{1, 2, 3, 4, 5, 6, 7, 8};
  const TurnedErrors apart(once, {distinct, k, v, {}, dout, {}}, precision);
  // Two heads of every token hold the same.
  Problem twice = p;
  twice.heads = 2;
  const std::vector<double> doubled{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8, 7, 8};
  const TurnedErrors alike(twice, {doubled, k, v, {}, dout, {}}, precision);
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    const std::size_t pair = i / 2 * 4 + i % 2;
    EXPECT_EQ(alike.q[pair].square, 2 * apart.q[i].square);
    EXPECT_EQ(alike.q[pair].worst, apart.q[i].worst);
  }
}

TEST(AttentionRotary, BoundsOfGradientsTurnWithThem) {
  Problem p = rotary_problem(1, 1, 2);
  p.dtype = DType::kF32;
  p.positions = PositionIds::kOffset;
  p.position_offset = 2;
  AttentionValues<double> values;
  values.dq = {5, -7};
  values.dk = {0, 0};
  AttentionBounds bounds;
  bounds.dq.resize(2);
  bounds.dk.resize(2);
  bounds.dq[0].add(0.5);
  bounds.dq[1].add(0.25);
  turn_back(p, Precision{}, values, bounds);
  const double c = std::fabs(std::cos(2.0)), s = std::fabs(std::sin(2.0));
  EXPECT_NEAR(bounds.dq[0].worst, c * 0.5 + s * 0.25, 2e-6);
  EXPECT_NEAR(bounds.dq[1].worst, s * 0.5 + c * 0.25, 2e-6);
  EXPECT_GT(bounds.dq[0].worst, static_cast<float>(c) * 0.5 + static_cast<float>(s) * 0.25);
  EXPECT_EQ(bounds.dk[0].worst, 0);
  // What may overflow in one element may be anything in both.
  bounds.dk[0] = Bound::unbounded();
  turn_back(p, Precision{}, values, bounds);
  EXPECT_EQ(bounds.dk[1].worst, kUnbounded);
}

}  // namespace
}  // namespace shardproof
