// The bounds of the attention layer: an emulation that keeps the contract never exceeds them, a
// faulty one does.
#include <gtest/gtest.h>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "reference/attention_layer_emulation.h"
#include "reference/bound_check.h"

namespace shardproof {
namespace {

NamedTensors emulate(const Problem& problem, const Contract& contract, Summation summation,
                     LayerFault fault) {
  if (problem.dtype == DType::kF64) {
    return LayerEmulation<double>(problem, contract, summation, fault, problem.seed).run();
  }
  return LayerEmulation<float>(problem, contract, summation, fault, problem.seed).run();
}

Worst judge(const Problem& problem, const Contract& contract, Summation summation,
            LayerFault fault) {
  return compare(emulate(problem, contract, summation, fault),
                 problem.op->evaluate(problem, contract, Effort::kAll));
}

Problem random_problem(Dice& dice) {
  static const std::vector<const Mask*> masks = all_masks();
  Problem p;
  p.op = &attention_layer_operator();
  p.batch = dice.below(3);
  p.q = dice.below(dice.chance(90) ? 20 : 64);
  p.features = dice.below(dice.chance(70) ? 6 : 24);
  p.kv_heads = 1 + dice.below(3);
  p.heads = p.kv_heads * (1 + dice.below(3));
  p.dim = 1 + dice.below(8);
  p.dim_v = 1 + dice.below(8);
  p.mask.mask = masks[static_cast<std::size_t>(dice.below(static_cast<Index>(masks.size())))];
  p.mask.a = dice.below(20);
  p.mask.b = dice.below(20);
  p.bias = dice.chance(30) ? ScoreBias::kAlibi : ScoreBias::kNone;
  p.softcap = dice.chance(20) ? 3 : 0;
  p.dtype = all_dtypes()[static_cast<std::size_t>(dice.below(5))];
  p.data = static_cast<DataRecipe>(dice.below(10));
  p.seed = dice.bits();
  p.op->repair(p);
  return p;
}

TEST(AttentionLayerBound, HonestContractsNeverExceedIt) {
  const auto cut = [](Contract& contract, const Problem& problem, Dice& dice) {
    contract.partitions.summed = dice.partition(problem.heads, 1 + dice.below(5));
  };
  const auto honest = [](const Problem& problem, const Contract& contract, Summation summation) {
    return judge(problem, contract, summation, LayerFault::kNone);
  };
  expect_honest_contracts_hold(11, 600, random_problem, cut, honest);
}

Problem fixed_problem(DType dtype, std::string_view mask) {
  Problem p;
  p.op = &attention_layer_operator();
  p.batch = 2;
  p.q = 24;
  p.features = 20;
  p.kv_heads = 2;
  p.heads = 4;
  p.dim = 6;
  p.dim_v = 5;
  for (const Mask* candidate : all_masks()) {
    if (candidate->name == mask) p.mask.mask = candidate;
  }
  p.dtype = dtype;
  p.op->repair(p);
  return p;
}

// As the subjects here declare it: flash kernels between tensors of the problem's dtype.
Contract flash_contract(DType dtype, Partition parts) {
  Contract contract;
  Precision& p = contract.precision;
  p.io = p.middle = p.probability = p.score_gradient = p.saved_out = dtype;
  contract.partitions.summed = std::move(parts);
  return contract;
}

const Partition kHeadsApart{{0}, {1}, {2}, {3}};  // every key/value head is divided

TEST(AttentionLayerBound, StructuralFaultsExceedIt) {
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (LayerFault fault :
         {LayerFault::kMissingPart, LayerFault::kNoReduceOfDx, LayerFault::kLostShare,
          LayerFault::kBiasPerPart, LayerFault::kUnscaledGradient, LayerFault::kNone}) {
      int caught = 0;
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        Problem p = fixed_problem(dtype, "causal");
        p.seed = seed;
        caught += judge(p, flash_contract(dtype, kHeadsApart), Summation::kPermuted, fault).t2 > 1;
      }
      EXPECT_EQ(caught, fault == LayerFault::kNone ? 0 : 6)
          << static_cast<int>(fault) << " " << format(dtype).name;
    }
  }
}

TEST(AttentionLayerBound, LeavesPowerToSeeFaults) {
  const std::pair<DType, double> limits[] = {{DType::kF32, 1e-4}, {DType::kBf16, 0.7}};
  for (const auto& [dtype, limit] : limits) {
    for (Index length : {24, 128}) {
      Problem p = fixed_problem(dtype, "causal");
      p.q = length;
      p.features = 32;
      p.dim = p.dim_v = 16;
      p.op->repair(p);
      const Expected expected =
          p.op->evaluate(p, flash_contract(dtype, {{0, 1}, {2, 3}}), Effort::kAll);
      for (const ExpectedTensor& tensor : expected.tensors) {
        if (tensor.spec.name == "dbk") continue;  // 0: the rows of dS sum to 0
        EXPECT_LT(vagueness(tensor), limit)
            << tensor.spec.name << " " << format(dtype).name << " " << length;
      }
    }
  }
}

}  // namespace
}  // namespace shardproof
