#include "harness/worlds/sim_inputs.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/model/element.h"
#include "harness/worlds/shards.h"
#include "harness/worlds/storage.h"

namespace shardproof {

bool is_input(const TensorSpec& spec) {
  return spec.kind == TensorKind::kInput || spec.kind == TensorKind::kUpstream;
}

void SimInputs::prepare(const Problem& problem) {
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

void SimInputs::add_tensor(SimRank& rank, std::size_t tensor, Shard shard) const {
  const TensorSpec& spec = specs_[tensor];
  Tensor data = rank.memory.allocate(spec.name, spec.dtype, shape_of(shard));
  if (is_input(spec)) {
    const std::size_t size = storage_bytes(spec.dtype);
    const std::byte* whole = whole_[tensor].data();
    std::byte* part = data.view().data;
    for_each_run(shard, spec.shape, [&](Index local, Index global, Index count) {
      std::memcpy(part + static_cast<std::size_t>(local) * size,
                  whole + static_cast<std::size_t>(global) * size,
                  static_cast<std::size_t>(count) * size);
    });
  }
  rank.tensors.push_back({spec, std::move(shard), std::move(data)});
}

void SimInputs::find_changes(const SimRank& rank, std::vector<Finding>& findings) const {
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    if (!is_input(specs_[t])) continue;
    const RankTensor& tensor = rank.tensors[t];
    const std::size_t size = storage_bytes(tensor.spec.dtype);
    const std::byte* part = tensor.data.view().data;
    Index changed = -1;
    Index changed_local = -1;
    for_each_run(tensor.shard, tensor.spec.shape, [&](Index local, Index global, Index count) {
      const std::byte* got = part + static_cast<std::size_t>(local) * size;
      const std::byte* want = whole_[t].data() + static_cast<std::size_t>(global) * size;
      if (changed >= 0 || std::memcmp(got, want, static_cast<std::size_t>(count) * size) == 0) {
        return;
      }
      std::size_t i = 0;
      while (std::memcmp(got + i * size, want + i * size, size) == 0) ++i;
      changed = global + static_cast<Index>(i);
      changed_local = local + static_cast<Index>(i);
    });
    if (changed < 0) continue;
    findings.push_back(
        {Breach::kInputChanged, rank.index(), std::string(tensor.spec.name), changed,
         fmt::format("was {} and is {}", load(tensor.spec.dtype, whole_[t].data(), changed),
                     tensor.data.view().at(changed_local))});
  }
}

}  // namespace shardproof
