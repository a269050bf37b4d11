#include "harness/worlds/inputs.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/model/element.h"
#include "harness/worlds/storage.h"

namespace shardproof {

bool is_input(const TensorSpec& spec) {
  return spec.kind == TensorKind::kInput || spec.kind == TensorKind::kUpstream;
}

void Inputs::prepare(const Problem& problem) {
  if (problem_ == problem) return;
  problem_.reset();
  specs_ = problem.op->tensors(problem);
  whole_.resize(specs_.size());
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    whole_[t].clear();
    if (!is_input(specs_[t])) continue;
    const std::vector<double> values = whole_tensor(problem, specs_[t]);
    whole_[t].resize(values.size() * storage_bytes(specs_[t].dtype));
    store_all(specs_[t].dtype, values, whole_[t].data());
  }
  problem_ = problem;
}

void Inputs::fill(PlacedRank& rank) const {
  std::vector<std::byte> room;
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    if (!is_input(specs_[t])) continue;
    const std::size_t size = storage_bytes(specs_[t].dtype);
    const std::byte* whole = whole_[t].data();
    const View& data = rank.tensors[t].data;
    const bool dense = data.is_dense();
    if (!dense) room.resize(data.bytes());
    std::byte* target = dense ? data.data : room.data();
    for (const ShardRun& run : rank.tensors[t].part->runs) {
      std::memcpy(target + static_cast<std::size_t>(run.local) * size,
                  whole + static_cast<std::size_t>(run.global) * size,
                  static_cast<std::size_t>(run.count) * size);
    }
    if (!dense) unpack(room.data(), data);
  }
}

void Inputs::find_changes(const PlacedRank& rank, std::vector<Finding>& findings) const {
  std::vector<std::byte> room;
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    if (!is_input(specs_[t])) continue;
    const RankTensor& tensor = rank.tensors[t];
    const std::size_t size = storage_bytes(specs_[t].dtype);
    const std::byte* part = packed_bytes(tensor.data, room);
    Index changed = -1;
    Index changed_local = -1;
    for (const ShardRun& run : tensor.part->runs) {
      const std::byte* got = part + static_cast<std::size_t>(run.local) * size;
      const std::byte* want = whole_[t].data() + static_cast<std::size_t>(run.global) * size;
      if (std::memcmp(got, want, static_cast<std::size_t>(run.count) * size) == 0) continue;
      std::size_t i = 0;
      while (std::memcmp(got + i * size, want + i * size, size) == 0) ++i;
      changed = run.global + static_cast<Index>(i);
      changed_local = run.local + static_cast<Index>(i);
      break;
    }
    if (changed < 0) continue;
    findings.push_back(
        {Breach::kInputChanged, rank.index(), std::string(specs_[t].name), changed,
         fmt::format("was {} and is {}", load(specs_[t].dtype, whole_[t].data(), changed),
                     tensor.data.at(changed_local))});
  }
}

}  // namespace shardproof
