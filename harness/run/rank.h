// Rank: everything a subject sees of the rank it runs on: its shards, its groups, its device.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/case.h"
#include "harness/model/operator.h"
#include "harness/run/communicator.h"
#include "harness/run/device.h"
#include "harness/run/memory.h"

namespace shardproof {

// Which global indices of each dimension a rank holds of one tensor.
using Shard = std::vector<std::vector<Index>>;

Shape shape_of(const Shard& shard);

class Rank {
 public:
  virtual ~Rank() = default;

  virtual const Case& running() const = 0;
  const Problem& problem() const { return running().problem; }
  const Mesh& mesh() const { return running().placement.mesh; }
  virtual int index() const = 0;  // global rank
  int coordinate(std::string_view axis) const { return mesh().coordinate(index(), axis); }
  int size(std::string_view axis) const { return mesh().size(axis); }

  // This rank's shard of an input, upstream gradient, output or gradient.
  virtual View get(std::string_view tensor) = 0;

  // The global indices it holds along `dimension`.
  virtual std::span<const Index> owned(std::string_view tensor, int dimension) = 0;

  // A poisoned work tensor, freed when it leaves scope.
  virtual Tensor make(DType dtype, const Shape& shape) = 0;

  // State that the forward pass leaves for the backward pass.
  void keep(std::string key, Tensor tensor) { kept_[std::move(key)] = std::move(tensor); }
  const View& kept(std::string_view key) const;

  virtual Device& device() = 0;

  // The group of ranks that differ from this one along `axis`; a group of one when the mesh has no
  // such axis.
  virtual Communicator& along(std::string_view axis) = 0;

  // Declares that `view` is a buffer for k or v blocks of other ranks (residency is measured).
  virtual void holds_remote_kv(const View& view) = 0;

 protected:
  std::map<std::string, Tensor, std::less<>> kept_;
};

}  // namespace shardproof
