// Store: where a device keeps its tensors when that is not the heap. The host reads and writes what
// it gives out, too, but only after settle(): a device may still be at work on it.
#pragma once

#include <cstddef>

namespace shardproof {

class Store {
 public:
  virtual ~Store() = default;

  // At least as aligned as memory of the heap is. Throws Error when there is none.
  virtual std::byte* acquire(std::size_t bytes) = 0;
  virtual void release(std::byte* data) = 0;

  // Returns when no work on the memory is under way. Called by destructors: what went wrong is
  // thrown by the device's next call.
  virtual void settle() noexcept = 0;
};

}  // namespace shardproof
