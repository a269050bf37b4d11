#include "harness/worlds/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/worlds/storage.h"

namespace shardproof {
namespace {

constexpr std::int32_t kNobody = -1;

void check_written(const TensorSpec& spec, const GatheredPart& part, int rank,
                   std::vector<Finding>& findings) {
  const Index local = Memory::first_unwritten(part.data);
  if (local < 0) return;
  findings.push_back({Breach::kUnwritten, rank, std::string(spec.name),
                      global_position(part.part->indices, spec.shape, local),
                      fmt::format("element {} of the shard {}", local, part.data.shape.text())});
}

// `bytes`: the elements of the part.
KeptShard kept(const TensorSpec& spec, const GatheredPart& part, const std::byte* bytes, int rank) {
  KeptShard shard{std::string(spec.name), rank, part.part->indices, {}};
  shard.values.resize(static_cast<std::size_t>(part.data.elements()));
  load_all(part.data.dtype, bytes, shard.values);
  return shard;
}

}  // namespace

void Gather::add(const TensorSpec& spec, std::span<const GatheredPart> parts,
                 const RunOptions& options, Outcome& outcome) {
  const auto elements = static_cast<std::size_t>(spec.shape.elements());
  whole_.resize(elements * storage_bytes(spec.dtype));
  origin_.assign(elements, kNobody);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int rank = static_cast<int>(i);
    const std::byte* bytes = packed_bytes(parts[i].data, room_);
    differs_ = false;
    for (const ShardRun& run : parts[i].part->runs) compare(spec, bytes, rank, run, outcome);
    check_written(spec, parts[i], rank, outcome.findings);
    if (options.keep_shards) outcome.shards.push_back(kept(spec, parts[i], bytes, rank));
  }
  Gathered gathered{spec, std::vector<double>(elements)};
  load_all(spec.dtype, whole_.data(), gathered.got);
  for (std::size_t i = 0; i < elements; ++i) {
    if (origin_[i] == kNobody) gathered.got[i] = std::numeric_limits<double>::quiet_NaN();
  }
  outcome.tensors.push_back(std::move(gathered));
}

void Gather::compare(const TensorSpec& spec, const std::byte* bytes, int rank,
                     const ShardRun& shard_run, Outcome& outcome) {
  const auto [local, global, count] = shard_run;
  const std::size_t size = storage_bytes(spec.dtype);
  const auto first = static_cast<std::size_t>(global);
  const auto run = static_cast<std::size_t>(count);
  const std::byte* got = bytes + static_cast<std::size_t>(local) * size;
  std::byte* held = whole_.data() + first * size;
  const auto origins = origin_.begin() + global;
  if (std::all_of(origins, origins + count, [](std::int32_t o) { return o == kNobody; })) {
    std::memcpy(held, got, run * size);
    std::fill(origins, origins + count, rank);
    return;
  }
  const bool all_held = std::find(origins, origins + count, kNobody) == origins + count;
  if (all_held && std::memcmp(held, got, run * size) == 0) return;
  for (std::size_t i = 0; i < run; ++i) {
    std::int32_t& origin = origin_[first + i];
    if (origin == kNobody) {
      std::memcpy(held + i * size, got + i * size, size);
      origin = rank;
    }
    if (differs_ || std::memcmp(held + i * size, got + i * size, size) == 0) continue;
    const double theirs = load(spec.dtype, held, static_cast<std::ptrdiff_t>(i));
    const double ours = load(spec.dtype, got, static_cast<std::ptrdiff_t>(i));
    if (std::isnan(theirs) && std::isnan(ours)) continue;  // NaNs are all alike
    differs_ = true;
    outcome.findings.push_back(
        {Breach::kReplicasDiffer, rank, std::string(spec.name), global + static_cast<Index>(i),
         fmt::format("rank {} holds {}, rank {} holds {}", origin, theirs, rank, ours)});
  }
}

}  // namespace shardproof
