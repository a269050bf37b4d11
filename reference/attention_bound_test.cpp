#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "harness/masks/masks.h"
#include "reference/attention.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

const Mask* mask_named(std::string_view name) {
  for (const Mask* mask : all_masks()) {
    if (mask->name == name) return mask;
  }
  return nullptr;
}

// How many honest cases to judge; a soak sets it.
std::uint64_t honest_cases() {
  const char* text = std::getenv("ATTENTION_BOUND_CASES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1500;
}

std::uint64_t first_seed() {
  const char* text = std::getenv("ATTENTION_BOUND_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

TEST(AttentionBound, HonestContractsNeverExceedIt) {
  double worst = 0;
  std::vector<double> likely;
  int failures = 0;
  for (std::uint64_t i = 0; i < honest_cases() && failures < 20; ++i) {
    const RandomCase c = random_case(first_seed() * 1000003 + i, i % 10 == 0 ? 70 : 14);
    const Expected expected = c.problem.op->evaluate(c.problem, c.contract, Effort::kAll);
    const NamedTensors got =
        emulate_attention(c.problem, inputs_of(c.problem), c.contract, c.emulation);
    const Excess e = excess(expected, got);
    worst = std::max(worst, e.worst);
    likely.push_back(e.likely);
    if (e.worst > 1 || e.likely > 1) {
      ++failures;
      ADD_FAILURE() << fmt::format("{} T1 {} T2 {} in {}[{}]", c.text(), e.worst, e.likely,
                                   e.tensor, e.element);
    }
  }
  std::sort(likely.begin(), likely.end());
  fmt::print("largest error/T1 {:.3f}, error/T2 {:.3f}, its median {:.3f} over {} cases\n", worst,
             likely.back(), likely[likely.size() / 2], likely.size());
}

// A generic case in which `fault` changes the computation.
RandomCase case_for(EmulatedFault fault, std::uint64_t seed, DType dtype) {
  RandomCase c = random_case(seed, 40);
  Problem& p = c.problem;
  Draw draw(seed + 17);
  p.dtype = dtype;
  p.data = DataRecipe::kNormal;
  p.edit = Edit::kNone;
  p.batch = 1;
  p.kv_heads = 1;
  p.heads = fault == EmulatedFault::kMissingHead ? 2 : 1;
  p.q = p.kv = draw.between(24, 40);
  p.dim = draw.between(8, 20);
  p.dim_v = draw.between(8, 20);
  p.scale = 0;
  p.softcap = fault == EmulatedFault::kNoSoftcapDerivative ? 2.5 : 0;
  p.bias = ScoreBias::kNone;
  p.sink = fault == EmulatedFault::kSinkInEveryBlock;
  p.dropout = 0;
  p.rotary = 0;
  p.mask = {mask_named("causal"), 0, 0};
  do {
    c.contract = random_contract(draw, p);
  } while (p.sink && c.contract.partitions.keys.size() == 1);
  // The plainest contract: nothing is rounded but inputs and outputs.
  c.contract.precision = Precision{.io = dtype, .merge_blocks = true};
  c.emulation.fault = fault;
  c.emulation.tile = 3;
  c.contract.precision.rescales = rescales_of(p, c.contract, c.emulation.tile);
  return c;
}

// In how many of `cases` the fault exceeds T2.
int detected(EmulatedFault fault, DType dtype, int cases) {
  int count = 0;
  for (int i = 0; i < cases; ++i) {
    const RandomCase c = case_for(fault, static_cast<std::uint64_t>(i), dtype);
    const Expected expected = c.problem.op->evaluate(c.problem, c.contract, Effort::kAll);
    const NamedTensors got =
        emulate_attention(c.problem, inputs_of(c.problem), c.contract, c.emulation);
    count += excess(expected, got).likely > 1 ? 1 : 0;
  }
  return count;
}

struct FaultCase {
  const char* name;
  EmulatedFault fault;
};

class AttentionBoundFault : public testing::TestWithParam<FaultCase> {};

TEST_P(AttentionBoundFault, ExceedsItInEveryGenericCase) {
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    EXPECT_EQ(detected(GetParam().fault, dtype, 30), 30) << format(dtype).name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionBoundFault,
    testing::Values(FaultCase{"DroppedKey", EmulatedFault::kDroppedKey},
                    FaultCase{"ScaleByDim", EmulatedFault::kScaleByDim},
                    FaultCase{"NoRescale", EmulatedFault::kNoRescale},
                    FaultCase{"MaskOffByOne", EmulatedFault::kMaskOffByOne},
                    FaultCase{"NoSoftcapDerivative", EmulatedFault::kNoSoftcapDerivative},
                    FaultCase{"Bf16Accumulator", EmulatedFault::kBf16Accumulator},
                    FaultCase{"MissingHead", EmulatedFault::kMissingHead},
                    FaultCase{"NoDlse", EmulatedFault::kNoDlse},
                    FaultCase{"SinkInEveryBlock", EmulatedFault::kSinkInEveryBlock}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(AttentionBound, TheSameCasesWithoutAFaultStayBelow) {
  EXPECT_EQ(detected(EmulatedFault::kNone, DType::kF32, 30), 0);
  EXPECT_EQ(detected(EmulatedFault::kNone, DType::kBf16, 30), 0);
}

TEST(AttentionBound, LikelyNeverExceedsWorstAndDeadElementsHaveNone) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomCase c = random_case(seed, 10);
    const Expected all = c.problem.op->evaluate(c.problem, c.contract, Effort::kAll);
    for (const ExpectedTensor& tensor : all.tensors) {
      for (std::size_t i = 0; i < tensor.want.size(); ++i) {
        EXPECT_LE(tensor.likely[i], tensor.worst[i]) << c.text() << tensor.spec.name;
        EXPECT_GE(tensor.likely[i], 0) << c.text() << tensor.spec.name;
        // Nothing but a row or key without a partner is exact by contract.
        if (tensor.worst[i] == 0) {
          EXPECT_TRUE(tensor.want[i] == 0 || tensor.spec.name == "lse");
        }
      }
    }
  }
}

TEST(AttentionBound, EffortsAgree) {
  const RandomCase c = case_for(EmulatedFault::kNone, 1, DType::kBf16);
  const Expected values = c.problem.op->evaluate(c.problem, c.contract, Effort::kValues);
  const Expected likely = c.problem.op->evaluate(c.problem, c.contract, Effort::kLikely);
  const Expected all = c.problem.op->evaluate(c.problem, c.contract, Effort::kAll);
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    EXPECT_EQ(values.tensors[t].want, all.tensors[t].want);
    EXPECT_TRUE(values.tensors[t].worst.empty());
    EXPECT_EQ(likely.tensors[t].likely, all.tensors[t].likely);
    EXPECT_EQ(likely.tensors[t].worst.back(), kUnbounded);
    EXPECT_LT(all.tensors[t].worst.back(), kUnbounded);
  }
}

// The RMS of error over sigma, the largest of all tensors that it applies to (test T3).
double largest_rms(std::uint64_t seed, EmulatedFault fault, DType dtype) {
  RandomCase c = case_for(fault, seed, dtype);
  c.problem.q = c.problem.kv = 40;
  c.problem.dim = c.problem.dim_v = 32;
  Draw draw(seed);
  const Precision precision = c.contract.precision;
  c.contract = random_contract(draw, c.problem);
  c.contract.precision = precision;
  const Expected expected = c.problem.op->evaluate(c.problem, c.contract, Effort::kAll);
  const NamedTensors got =
      emulate_attention(c.problem, inputs_of(c.problem), c.contract, c.emulation);
  double largest = 0;
  for (const ExpectedTensor& tensor : expected.tensors) {
    if (!tensor.rms_applies) continue;
    const std::vector<double>& values = got.find(tensor.spec.name)->second;
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = values[i] - tensor.want[i];
      sum += error == 0 ? 0 : square(error / tensor.sigma[i]);
    }
    largest = std::max(largest, std::sqrt(sum / static_cast<double>(values.size())));
  }
  return largest;
}

TEST(AttentionBound, SigmaIsTheSizeOfHonestErrors) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      EXPECT_LT(largest_rms(seed, EmulatedFault::kNone, dtype), 1.15) << format(dtype).name;
    }
    EXPECT_GT(largest_rms(seed, EmulatedFault::kNone, DType::kBf16), 0.5);
    EXPECT_GT(largest_rms(seed, EmulatedFault::kBf16Accumulator, DType::kBf16), 1.15);
  }
}

// Large problems skip the worst-case sums unless asked for them: T2 may only grow, and little.
TEST(AttentionBound, LargeProblemsLoseLittleWithoutTheWorstCase) {
  Problem p = case_for(EmulatedFault::kNone, 1, DType::kF32).problem;
  p.q = p.kv = 530;
  p.mask = {mask_named("none"), 0, 0};
  const Expected likely = p.op->evaluate(p, {}, Effort::kLikely);
  const Expected all = p.op->evaluate(p, {}, Effort::kAll);
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    for (std::size_t i = 0; i < all.tensors[t].want.size(); ++i) {
      EXPECT_GE(likely.tensors[t].likely[i], 0.999 * all.tensors[t].likely[i]);
      EXPECT_LE(likely.tensors[t].likely[i], 1.5 * all.tensors[t].likely[i]);
    }
  }
}

// f32 accumulators overflow although the result, in f16, would fit: anything is accepted.
TEST(AttentionBound, OverflowOfAnIntermediateIsAccepted) {
  Problem p = case_for(EmulatedFault::kNone, 1, DType::kF32).problem;
  p.data = DataRecipe::kHuge;
  AttentionInputs<double> inputs;
  NamedTensors in = inputs_of(p);
  for (double& value : in["q"]) value *= 1e25;
  for (double& value : in["k"]) value *= 1e15;
  inputs = {in["q"], in["k"], in["v"], {}, in["dout"], in["dlse"]};
  const AttentionResult result = attention_bounds(p, inputs, {}, {}, true);
  EXPECT_EQ(result.bounds.out[0].worst, kUnbounded);
  EXPECT_EQ(result.bounds.dk[0].worst, kUnbounded);
  for (double& value : in["q"]) value *= 1e-25;
  for (double& value : in["k"]) value *= 1e-15;
  inputs = {in["q"], in["k"], in["v"], {}, in["dout"], in["dlse"]};
  EXPECT_LT(attention_bounds(p, inputs, {}, {}, true).bounds.out[0].worst, kUnbounded);
}

// Operands that a projection computed and stored in bf16: the subject works on the rounded ones.
TEST(AttentionBound, CoversErrorsThatOperandsAlreadyCarry) {
  double largest = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomCase c = random_case(seed, 20);
    Problem& p = c.problem;
    p.dtype = DType::kF32;
    p.edit = Edit::kNone;
    if (p.data == DataRecipe::kTiny) p.data = DataRecipe::kNormal;
    p.bias = ScoreBias::kNone;
    p.sink = false;
    p.dropout = 0;
    p.rotary = 0;
    Draw draw(seed);
    c.contract = random_contract(draw, p);
    c.contract.precision.operand = DType::kF32;
    c.contract.precision.middle = DType::kBf16;
    c.contract.precision.rescales = rescales_of(p, c.contract, c.emulation.tile);
    NamedTensors exact = inputs_of(p);
    NamedTensors stored = exact;
    std::map<std::string, std::vector<Family>> errors;
    for (const char* name : {"q", "k", "v", "dout"}) {
      for (double& value : stored[name]) {
        const double u = format(DType::kBf16).u() * std::fabs(value);
        errors[name].push_back({u, u * u, 0});
        value = round_to(DType::kBf16, value);
      }
    }
    exact["dlse"].assign(exact["dlse"].size(), 0);
    stored["dlse"] = exact["dlse"];
    const AttentionResult result =
        attention_bounds(p, {exact["q"], exact["k"], exact["v"], {}, exact["dout"], {}},
                         {errors["q"], errors["k"], errors["v"], errors["dout"]}, c.contract, true);
    const NamedTensors got = emulate_attention(p, stored, c.contract, c.emulation);
    const auto compare = [&](const char* name, const std::vector<double>& want,
                             const std::vector<Bound>& bounds) {
      const OutputType type(DType::kF32, c.contract.precision);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double value = got.find(name)->second[i];
        if (value == want[i]) continue;
        const double likely = finish(bounds[i], want[i], type).likely;
        EXPECT_LE(std::fabs(value - want[i]), likely) << c.text() << name << i;
        largest = std::max(largest, std::fabs(value - want[i]) / likely);
      }
    };
    compare("out", result.values.out, result.bounds.out);
    compare("lse", result.values.lse, result.bounds.lse);
    compare("dq", result.values.dq, result.bounds.dq);
    compare("dk", result.values.dk, result.bounds.dk);
    compare("dv", result.values.dv, result.bounds.dv);
  }
  EXPECT_GT(largest, 0.3);
}

}  // namespace
}  // namespace shardproof
