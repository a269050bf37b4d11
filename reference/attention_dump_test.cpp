// Writes inputs, contracts and bounds of random cases for compare_with_prototype.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "reference/attention.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

void write_list(std::ostream& to, std::string_view kind, std::string_view name,
                const std::vector<double>& values) {
  to << kind << " " << name << "\n";
  for (double value : values) to << fmt::format("{:.17g} ", value);
  to << "\n";
}

void write_blocks(std::ostream& to, std::string_view kind, const Partition& partition) {
  for (const auto& block : partition) {
    if (block.empty()) continue;
    to << kind;
    for (Index i : block) to << " " << i;
    to << "\n";
  }
}

void write_header(std::ostream& to, const RandomCase& c) {
  const Problem& p = c.problem;
  const Precision& r = c.contract.precision;
  const auto name = [](DType type) { return format(type).name; };
  to << fmt::format(
      "problem batch=1 heads={} kv_heads=1 q={} kv={} dim={} dim_v={} mask={} a={} b={} seed={} "
      "bias={} scale={:.17g} softcap={:.17g} data={}\n",
      p.heads, p.q, p.kv, p.dim, p.dim_v, p.mask.mask->name, p.mask.a, p.mask.b, p.seed,
      names_of_score_bias()[static_cast<std::size_t>(p.bias)], effective_scale(p),
      effective_softcap(p), names_of_recipe()[static_cast<std::size_t>(p.data)]);
  to << fmt::format(
      "contract io={} score={} p={} ds={} osave={} lse={} blk={} gq={} gkv={} operand={} rz={} "
      "ring={} ntile={}\n",
      name(r.io), name(r.score), name(r.probability), name(r.score_gradient), name(r.saved_out),
      name(r.lse), name(r.block_out), name(r.query_gradient), name(r.kv_gradient), name(r.operand),
      r.truncating ? 1 : 0, r.merge_blocks ? "merge" : "carry", r.rescales);
  write_blocks(to, "queries", c.contract.partitions.queries);
  write_blocks(to, "keys", c.contract.partitions.keys);
}

// The prototype knows one key/value head, no dlse, no sink, no dropout, no rotary positions, and
// f32 as the softmax's type.
RandomCase prototype_case(std::uint64_t seed) {
  RandomCase c = random_case(seed, 60);
  Problem& p = c.problem;
  Draw draw(seed + 99);
  p.batch = 1;
  p.heads = p.heads / p.kv_heads;
  p.kv_heads = 1;
  p.kv = std::max<Index>(p.kv, 2);
  p.dim = draw.between(2, 40);
  p.dim_v = draw.between(2, 40);
  p.edit = Edit::kNone;
  p.sink = false;
  p.dropout = 0;
  p.rotary = 0;
  if (p.dtype == DType::kF64) p.dtype = DType::kF32;
  p.op->repair(p);
  c.contract = random_contract(draw, p);
  c.contract.precision.rescales = rescales_of(p, c.contract, c.emulation.tile);
  return c;
}

void write_case(std::ostream& to, const RandomCase& c) {
  const Problem& p = c.problem;
  const NamedTensors in = inputs_of(p);
  const auto get = [&](const char* name) {
    const auto found = in.find(name);
    return found == in.end() ? std::span<const double>{} : std::span<const double>(found->second);
  };
  const AttentionResult result = attention_bounds(
      p, {get("q"), get("k"), get("v"), get("bias"), get("dout"), {}}, {}, c.contract, true);
  write_header(to, c);
  for (const auto& [name, values] : in) write_list(to, "tensor", name, values);
  const auto write_bounds = [&](const char* name, const std::vector<double>& values,
                                const std::vector<Bound>& bounds, DType type) {
    std::vector<double> worst, likely;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Thresholds t = finish(bounds[i], values[i], OutputType(type, c.contract.precision));
      worst.push_back(bounds[i].worst == 0 ? 0 : t.worst);
      likely.push_back(bounds[i].worst == 0 ? 0 : t.likely);
    }
    write_list(to, "worst", name, worst);
    write_list(to, "likely", name, likely);
  };
  const Precision& r = c.contract.precision;
  write_bounds("O", result.values.out, result.bounds.out, r.io);
  write_bounds("lse", result.values.lse, result.bounds.lse, r.lse);
  write_bounds("dQ", result.values.dq, result.bounds.dq, r.io);
  write_bounds("dK", result.values.dk, result.bounds.dk, r.io);
  write_bounds("dV", result.values.dv, result.bounds.dv, r.io);
}

TEST(AttentionDump, WritesCasesWhereAsked) {
  const char* path = std::getenv("ATTENTION_DUMP");
  if (path == nullptr) GTEST_SKIP() << "ATTENTION_DUMP names no file";
  std::ofstream file(path);
  for (std::uint64_t seed = 0; seed < 400; ++seed) write_case(file, prototype_case(seed));
  ASSERT_TRUE(file.good());
}

}  // namespace
}  // namespace shardproof
