#include "reference/attention_random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "harness/model/element.h"
#include "harness/model/layout.h"
#include "reference/attention.h"
#include "reference/attention_emulator_arithmetic.h"

namespace shardproof {
namespace {

Partition partition(Layout layout, Index length, Index ranks) {
  Partition blocks;
  for (Index rank = 0; rank < ranks; ++rank) {
    blocks.push_back(owned_positions(layout, length, ranks, rank));
  }
  return blocks;
}

void set_all(Precision& precision, DType type) {
  for (DType* field :
       {&precision.io, &precision.accumulator, &precision.elementwise, &precision.score,
        &precision.probability, &precision.score_gradient, &precision.saved_out, &precision.lse,
        &precision.block_out, &precision.query_gradient, &precision.kv_gradient, &precision.operand,
        &precision.middle, &precision.reduction}) {
    *field = type;
  }
}

}  // namespace

std::uint64_t Draw::bits() { return mix(seed_ + 0x9e3779b97f4a7c15ull * ++count_); }

Index Draw::between(Index low, Index high) {
  return low + static_cast<Index>(bits() % static_cast<std::uint64_t>(high - low + 1));
}

Problem random_problem(Draw& draw, Index most_tokens) {
  Problem p;
  p.op = &attention_operator();
  p.batch = draw.between(1, 2);
  p.kv_heads = draw.between(1, 2);
  p.heads = p.kv_heads * draw.between(1, 3);
  p.q = draw.between(1, most_tokens);
  p.kv = draw.chance(50) ? p.q : draw.between(0, most_tokens);
  p.dim = draw.between(1, 9);
  p.dim_v = draw.chance(50) ? p.dim : draw.between(1, 9);
  p.mask = {draw.from(all_masks()), draw.between(0, 100), draw.between(0, 12)};
  if (p.mask.mask->name != "random") p.mask.a = draw.between(0, most_tokens);
  p.bias = static_cast<ScoreBias>(std::max<Index>(0, draw.between(-2, 2)));
  p.sink = draw.chance(30);
  p.dropout = draw.chance(70) ? 0 : (draw.chance(50) ? 0.1 : 0.5);
  p.scale = draw.chance(70) ? 0 : (draw.chance(50) ? 1 : 0.3);
  p.softcap = draw.chance(70) ? 0 : (draw.chance(50) ? 30 : 2.5);
  p.dtype = draw.from(all_dtypes());
  p.data = static_cast<DataRecipe>(
      draw.chance(30) ? 0 : draw.between(0, static_cast<Index>(names_of_recipe().size()) - 1));
  p.seed = draw.bits() % 100000;
  p.edit = draw.chance(20) ? Edit::kHiddenNan : Edit::kNone;
  if (draw.chance(50)) {
    p.rotary = draw.chance(50) ? 10000 : 10;
    p.dim += p.dim % 2;
    p.positions = static_cast<PositionIds>(
        draw.between(0, static_cast<Index>(names_of_position_ids().size()) - 1));
    p.position_offset = draw.between(0, draw.chance(50) ? 10 : 100000);
  }
  attention_operator().repair(p);
  return p;
}

Contract random_contract(Draw& draw, const Problem& problem) {
  Contract contract;
  Precision& precision = contract.precision;
  const DType io = problem.dtype;
  set_all(precision, accumulator_of(io));
  precision.io = io;
  if (io != DType::kF64 && io != DType::kF32) {
    for (DType* field : {&precision.probability, &precision.score_gradient, &precision.saved_out}) {
      if (draw.chance(70)) *field = io;
    }
    for (DType* field : {&precision.block_out, &precision.query_gradient, &precision.kv_gradient}) {
      if (draw.chance(35)) *field = io;
    }
    if (draw.chance(20)) precision.score = io;
    if (draw.chance(5)) precision.lse = io;
  }
  if ((io == DType::kF32 && draw.chance(40)) || io == DType::kTf32) {
    precision.operand = DType::kTf32;
  }
  if (io == DType::kTf32) precision.probability = precision.score_gradient = DType::kTf32;
  precision.truncating = io != DType::kF64 && draw.chance(15);
  precision.merge_blocks = draw.chance(50);
  const Index ranks = draw.chance(30) ? 1 : draw.between(2, 5);
  const Layout layout = draw.from(all_layouts());
  contract.partitions.queries = partition(layout, problem.q, ranks);
  contract.partitions.keys = partition(layout, problem.kv, ranks);
  if (io != DType::kF64 && io != DType::kF32 && draw.chance(60)) precision.middle = io;
  return contract;
}

int rescales_of(const Problem& problem, const Contract& contract, Index tile) {
  const Partition keys =
      contract.partitions.keys.empty() ? whole(problem.kv) : contract.partitions.keys;
  Index most = 1;
  Index all = 0;
  for (const auto& block : keys) {
    const Index tiles = (static_cast<Index>(block.size()) + tile - 1) / tile;
    most = std::max(most, tiles);
    all += tiles;
  }
  const Index steps = contract.precision.merge_blocks ? most : std::max<Index>(all, 1);
  return static_cast<int>(steps + (problem.sink ? 1 : 0));
}

RandomCase random_case(std::uint64_t seed, Index most_tokens) {
  Draw draw(seed);
  RandomCase result;
  result.problem = random_problem(draw, most_tokens);
  result.contract = random_contract(draw, result.problem);
  result.emulation.tile = draw.between(1, 16);
  result.emulation.seed = draw.bits();
  result.contract.precision.rescales =
      rescales_of(result.problem, result.contract, result.emulation.tile);
  return result;
}

std::string RandomCase::text() const {
  const Precision& p = contract.precision;
  const auto name = [](DType type) { return format(type).name; };
  return fmt::format(
      "{} | score={} p={} ds={} saved={} lse={} block={} gq={} gkv={} operand={} rz={} merge={} "
      "ranks={} rescales={}",
      to_text(problem), name(p.score), name(p.probability), name(p.score_gradient),
      name(p.saved_out), name(p.lse), name(p.block_out), name(p.query_gradient),
      name(p.kv_gradient), name(p.operand), p.truncating, p.merge_blocks,
      contract.partitions.keys.size(), p.rescales);
}

NamedTensors inputs_of(const Problem& problem) {
  NamedTensors inputs;
  for (const TensorSpec& spec : problem.op->tensors(problem)) {
    if (spec.kind != TensorKind::kInput && spec.kind != TensorKind::kUpstream) continue;
    inputs[std::string(spec.name)] = whole_tensor(problem, spec);
  }
  return inputs;
}

Excess excess(const Expected& expected, const NamedTensors& got) {
  Excess result;
  for (const ExpectedTensor& tensor : expected.tensors) {
    const std::vector<double>& values = got.find(tensor.spec.name)->second;
    EXPECT_EQ(values.size(), tensor.want.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == tensor.want[i] ||
          tensor.likely[i] == std::numeric_limits<double>::infinity()) {
        continue;
      }
      const double error = std::fabs(values[i] - tensor.want[i]);
      const auto over = [&](double bound) {
        return error <= bound * 1e300 ? error / bound : std::numeric_limits<double>::infinity();
      };
      result.worst = std::max(result.worst, over(tensor.worst[i]));
      if (over(tensor.likely[i]) <= result.likely) continue;
      result.likely = over(tensor.likely[i]);
      result.tensor = tensor.spec.name;
      result.element = static_cast<Index>(i);
    }
  }
  return result;
}

}  // namespace shardproof
