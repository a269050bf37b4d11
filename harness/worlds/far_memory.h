// FarMemory: tensors whose rows lie so far apart that the index of an element does not fit 32 bits,
// in addresses of which only the pages that are touched become memory. Rows of all tensors lie
// between each other; none shares an element with another.
#pragma once

#include <optional>
#include <vector>

#include "harness/run/store.h"
#include "harness/run/tensor.h"

namespace shardproof {

class FarMemory {
 public:
  FarMemory() = default;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  ~FarMemory();

  // Has addresses come from `store` from now on; null: from the system. No view is valid any more,
  // and the store must outlive the memory or the next call.
  void lie_in(Store* store);

  // A poisoned view whose elements are far apart along `dimension`; nothing where that has fewer
  // than two or too many, or where there is no room left. Appends to `gaps` poisoned memory that is
  // no tensor's: before and after each row, and where it would lie if its index were cut to 32
  // bits. Throws Error when the addresses cannot be reserved.
  std::optional<View> place(DType dtype, const Shape& shape, int dimension,
                            std::vector<View>& gaps);

  // No view is valid any more. Gives memory back when much was touched: to do so every time takes
  // longer than most cases.
  void clear();

 private:
  std::byte* reserve() const;
  void give_back();

  Store* store_ = nullptr;
  std::byte* reserved_ = nullptr;
  std::size_t used_ = 0;     // bytes of each row's neighbourhood
  std::size_t touched_ = 0;  // bytes that were made memory, at most
};

}  // namespace shardproof
