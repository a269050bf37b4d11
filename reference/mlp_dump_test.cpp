// Writes inputs, contracts and bounds of random cases for compare_mlp_with_prototype.py.
#include <gtest/gtest.h>

#include <cstdlib>

#include "reference/bound_check.h"
#include "reference/mlp.h"
#include "reference/tensor_dump.h"

namespace shardproof {
namespace {

// What the prototype knows: swiglu and, not gated, gelu, gelu_tanh and relu; f32 elementwise.
Problem prototype_problem(Dice& dice) {
  Problem p;
  p.op = &mlp_operator();
  p.tokens = 1 + dice.below(40);
  p.features = 1 + dice.below(40);
  p.hidden = 1 + dice.below(60);
  p.outputs = 1 + dice.below(40);
  p.activation = static_cast<Activation>(dice.below(4));
  p.gated = p.activation == Activation::kSilu;
  constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kF16};
  p.dtype = kTypes[dice.below(3)];
  constexpr DataRecipe kData[] = {DataRecipe::kNormal,       DataRecipe::kHeavyTailed,
                                  DataRecipe::kCancellation, DataRecipe::kConstantRows,
                                  DataRecipe::kCoordinates,  DataRecipe::kTiny};
  p.data = kData[dice.below(6)];
  p.seed = dice.bits();
  return p;
}

double number(auto value) { return static_cast<double>(value); }

TEST(MlpDump, WritesCasesForThePrototype) {
  const char* folder = std::getenv("MLP_DUMP");
  if (!folder) GTEST_SKIP() << "MLP_DUMP names no folder";
  Dice dice(21);
  for (int i = 0; i < 200; ++i) {
    const Problem p = prototype_problem(dice);
    Contract contract = contract_for(p.dtype, dice);
    const Precision& r = contract.precision;
    contract.partitions.summed = dice.partition(p.hidden, 1 + dice.below(6));
    TensorDump dump(std::string(folder) + "/" + std::to_string(i));
    dump.add("problem", {number(p.tokens), number(p.features), number(p.hidden), number(p.outputs),
                         number(p.activation), number(p.gated)});
    dump.add("contract", {number(p.dtype), number(r.middle), number(r.reduction), number(r.operand),
                          number(p.data)});
    std::vector<double> part_of_unit(static_cast<std::size_t>(p.hidden));
    for (std::size_t part = 0; part < contract.partitions.summed.size(); ++part) {
      for (Index unit : contract.partitions.summed[part]) {
        part_of_unit[static_cast<std::size_t>(unit)] = number(part);
      }
    }
    dump.add("parts", part_of_unit);
    dump.add("part_count", {number(contract.partitions.summed.size())});
    dump.add(p, p.op->evaluate(p, contract, Effort::kAll));
  }
}

}  // namespace
}  // namespace shardproof
