// Store: where a device keeps its tensors when that is not the heap. Only after settle() may the
// host read and write what it gives out: until then the device may be at work on it. prepare() and
// inspect() are work of the device, too, done in the order in which it was asked for: so a tensor
// may take the place of another one whose work is not done yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardproof {

// What lies on both sides of a tensor's payload.
inline constexpr std::size_t kGuardBytes = 64;
inline constexpr std::uint64_t kGuard = 0xc3c3c3c3c3c3c3c3u;  // over and over

// The numbers of tensors whose guard bands were not whole; more than fit are only counted.
struct BrokenGuards {
  static constexpr std::size_t kMost = 30;
  std::uint64_t count = 0;
  std::array<std::uint64_t, kMost> numbers{};
};

class Store {
 public:
  virtual ~Store() = default;

  // At least as aligned as memory of the heap is. Throws Error when there is none.
  virtual std::byte* acquire(std::size_t bytes) = 0;
  virtual void release(std::byte* data) = 0;

  // Returns when no work on the memory is under way. Throws what went wrong meanwhile.
  virtual void settle() = 0;

  // `block` holds a guard band, `bytes` of payload (an even number), and another band. Writes both
  // bands and, over and over, `poison` between them.
  virtual void prepare(std::byte* block, std::size_t bytes, std::uint64_t poison) = 0;

  // Adds `number` to `broken`, which lies in the store, if a band is not what prepare() wrote.
  // Called by destructors: never throws.
  virtual void inspect(const std::byte* block, std::size_t bytes, std::uint64_t number,
                       BrokenGuards* broken) noexcept = 0;
};

}  // namespace shardproof
