// Memory: one rank's tensors. Recycles blocks from case to case, poisons what it hands out, checks
// the guard bands, and counts what is alive, so that residency is measured and not believed.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/store.h"
#include "harness/run/tensor.h"

namespace shardproof {

class Memory {
 public:
  // A poisoned tensor: every element holds a NaN whose bits no arithmetic produces (a signalling
  // one: arithmetic and conversions return quiet NaNs). A work tensor has an empty name; any other
  // must outlive the memory.
  Tensor allocate(std::string_view name, DType dtype, const Shape& shape);

  // Whether any element still holds the poison; the first such row-major position, or -1.
  static Index first_unwritten(const View& view);
  // The first row-major position that holds anything else, or -1.
  static Index first_written(const View& view);
  static void poison(const View& view);

  // Marks the tensor that owns `view` as one that received k or v blocks from another rank.
  void mark_received(const View& view);
  Index peak_received_bytes() const { return peak_received_bytes_; }
  Index peak_bytes() const { return peak_bytes_; }

  bool owns(const std::byte* data) const { return find(data) != kNone; }

  // The live tensor that `data` points into: "q", or "a work tensor [3, 4]"; empty when none.
  std::string owner(const std::byte* data) const;

  // Names of tensors whose guard bands were overwritten, in the order in which it was found.
  // Live tensors are checked now, when the store's work is done, dead ones were when they died.
  std::vector<std::string> broken_guards() const;

  // Forgets counters and findings before the next case. No tensor may be alive.
  void reset();

  // Has tensors lie in `store` from now on; null: on the heap. No tensor may be alive, and the
  // store must outlive the memory or the next call. What a store gives out is poisoned when its
  // work comes to that: the host settles it before it looks or writes.
  void lie_in(Store* store);

  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

 private:
  friend class Tensor;
  struct Block;
  // A tensor that died in a store, whose guard bands are looked at some time later.
  struct Death {
    std::string_view name;
    Shape shape;
  };
  void frame(const Block& block, const View& payload);
  void free(std::size_t block);
  void inspect(const Block& block);
  std::size_t take(std::size_t bytes);
  std::vector<std::size_t>& unused_of(std::size_t capacity);

  // The block of the live tensor that `data` points into, or kNone.
  std::size_t find(const std::byte* data) const;
  static constexpr auto kNone = static_cast<std::size_t>(-1);

  // A live tensor: apart from its block because they are searched for every message.
  struct Live {
    const std::byte* first = nullptr;
    const std::byte* last = nullptr;
    std::size_t block = 0;
  };

  Store* store_ = nullptr;
  std::vector<Block> blocks_;
  std::vector<Live> live_;
  std::array<std::vector<std::size_t>, 64> unused_;  // blocks, by the logarithm of their capacity
  std::vector<std::string> broken_;                  // on the heap
  std::vector<Death> deaths_;                        // in the store
  BrokenGuards* broken_in_store_ = nullptr;
  Index live_bytes_ = 0;
  Index peak_bytes_ = 0;
  Index received_bytes_ = 0;
  Index peak_received_bytes_ = 0;
};

}  // namespace shardproof
