#include "harness/worlds/far_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "harness/model/require.h"
#include "harness/run/memory.h"

namespace shardproof {
namespace {

// The last row is 2^31 to 2^32 elements from the first. Cut to 32 bits, its index points up to 2^31
// elements before it, which is reserved, too, so that a wrong address hits nothing else.
constexpr Index kSpan = Index{1} << 32;
constexpr Index kBefore = Index{1} << 31;
constexpr Index kMostRows = 2048;  // beyond the first

// Rows are a multiple of this many bytes apart, whatever the dtype: all tensors together use less
// after each multiple.
constexpr std::size_t kRoom = 2 * static_cast<std::size_t>(kSpan / kMostRows);
constexpr std::size_t kWidest = 8;  // bytes of an element
constexpr std::size_t kReserved = (kBefore + kSpan) * kWidest + kRoom;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostTouched = std::size_t{64} << 20;

// The strides of all dimensions but `far`, dense among each other; returns their elements.
Index dense_strides(View& view, int far) {
  Index elements = 1;
  for (int d = view.shape.rank() - 1; d >= 0; --d) {
    if (d == far) continue;
    view.strides[static_cast<std::size_t>(d)] = elements;
    elements *= view.shape[d];
  }
  return elements;
}

}  // namespace

FarMemory::~FarMemory() { give_back(); }

void FarMemory::lie_in(Store* store) {
  if (store == store_) return;
  give_back();
  store_ = store;
}

std::byte* FarMemory::reserve() const {
  if (store_ != nullptr) return store_->acquire(kReserved);
  // Shared, so that it does not count against a limit on what a process may fill.
  void* start = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    throw Error(
        fmt::format("views=far: no {} GiB of addresses: {}; lift the limit (ulimit -v, "
                    "vm.overcommit_memory) or draw others (--views=dense,packed,...)",
                    kReserved >> 30, std::strerror(errno)));
  }
  return static_cast<std::byte*>(start);
}

void FarMemory::give_back() {
  if (reserved_ == nullptr) return;
  if (store_ != nullptr) {
    store_->release(reserved_);
  } else {
    munmap(reserved_, kReserved);
  }
  reserved_ = nullptr;
}

std::optional<View> FarMemory::place(DType dtype, const Shape& shape, int dimension,
                                     std::vector<View>& gaps) {
  const auto size = static_cast<Index>(storage_bytes(dtype));
  const Index rows = shape[dimension];
  View view{nullptr, dtype, shape, {}};
  const Index width = dense_strides(view, dimension);
  const std::size_t row_bytes = static_cast<std::size_t>(width * size);
  const std::size_t needed = (row_bytes + 3 * kGuardBytes - 1) / kGuardBytes * kGuardBytes;
  if (rows < 2 || rows - 1 > kMostRows || width == 0 || used_ + needed > kRoom) return {};
  if (reserved_ == nullptr) reserved_ = reserve();

  const Index pitch =
      kSpan / static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(rows - 1)));
  view.strides[static_cast<std::size_t>(dimension)] = pitch;
  view.data = reserved_ + kBefore * static_cast<Index>(kWidest) + used_ + kGuardBytes;
  used_ += needed;
  touched_ +=
      2 * static_cast<std::size_t>(rows) * (needed + kPage);  // each row and where it is cut to
  Memory::poison(view);
  const auto add_gap = [&](std::byte* start, Index elements) {
    gaps.push_back(View::dense(start, dtype, {elements}));
    Memory::poison(gaps.back());
  };
  for (Index row = 0; row < rows; ++row) {
    std::byte* start = view.data + row * pitch * size;
    add_gap(start - kGuardBytes, static_cast<Index>(kGuardBytes) / size);
    add_gap(start + row_bytes, static_cast<Index>(kGuardBytes) / size);
    const Index cut = static_cast<std::int32_t>(row * pitch);
    if (cut < 0) add_gap(view.data + cut * size, width);
  }
  return view;
}

void FarMemory::clear() {
  used_ = 0;
  if (touched_ < kMostTouched) return;
  touched_ = 0;
  if (store_ != nullptr) return give_back();
  madvise(reserved_, kReserved, MADV_REMOVE);
}

}  // namespace shardproof
