#include "harness/run/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::uint64_t kPoison64 = 0x7ff4a5a5a5a5a5a5u;
constexpr std::uint32_t kPoison32 = 0x7fa5a5a5u;
constexpr std::uint16_t kPoisonBf16 = 0x7fa5u;
constexpr std::uint16_t kPoisonF16 = 0x7d25u;
constexpr std::size_t kSmallestBlock = 256;

struct GiveBack {
  Store* store = nullptr;

  void operator()(std::byte* data) const {
    if (store != nullptr) return store->release(data);
    ::operator delete (data, std::align_val_t{kGuardBytes});
  }
};

// Calls visit(storage type's pointer, poison) for the view's dtype.
template <typename Visit>
auto with_storage(const View& view, Visit visit) {
  switch (view.dtype) {
    case DType::kF64:
      return visit(reinterpret_cast<std::uint64_t*>(view.data), kPoison64);
    case DType::kF32:
    case DType::kTf32:
      return visit(reinterpret_cast<std::uint32_t*>(view.data), kPoison32);
    case DType::kBf16:
      return visit(reinterpret_cast<std::uint16_t*>(view.data), kPoisonBf16);
    case DType::kF16:
      break;
  }
  return visit(reinterpret_cast<std::uint16_t*>(view.data), kPoisonF16);
}

// Calls visit(first element, stride, row-major position) for every innermost row of the view.
// Stops when it returns false.
template <typename Visit>
void for_each_row(const View& view, Visit visit) {
  const Index count = view.elements();
  if (count == 0) return;
  if (view.is_dense()) {
    visit(Index{0}, count, Index{1}, Index{0});
    return;
  }
  const int inner = view.shape.rank() - 1;
  const Index length = view.shape[inner];
  for (Index flat = 0; flat < count; flat += length) {
    const auto at = view.shape.coordinates(flat);
    Index offset = 0;
    for (int d = 0; d < inner; ++d) {
      offset += at[static_cast<std::size_t>(d)] * view.strides[static_cast<std::size_t>(d)];
    }
    if (!visit(offset, length, view.strides[static_cast<std::size_t>(inner)], flat)) return;
  }
}

// The first position whose being poison equals `poisoned`.
Index first_that_is(const View& view, bool poisoned) {
  return with_storage(view, [&](auto* elements, auto poison) {
    Index found = -1;
    for_each_row(view, [&](Index offset, Index length, Index stride, Index flat) {
      for (Index i = 0; i < length; ++i) {
        if ((elements[offset + i * stride] == poison) != poisoned) continue;
        found = flat + i;
        return false;
      }
      return true;
    });
    return found;
  });
}

// A pattern of 8 bytes.
std::uint64_t poison_of(DType dtype) {
  const View none{nullptr, dtype, {}, {}};
  return with_storage(none, [](auto* element, auto poison) {
    std::uint64_t pattern = 0;
    for (std::size_t i = 0; i < sizeof pattern / sizeof *element; ++i) {
      pattern |= std::uint64_t{poison} << (8 * sizeof *element * i);
    }
    return pattern;
  });
}

using Band = std::array<std::uint64_t, kGuardBytes / sizeof kGuard>;

void set_guard(std::byte* data) {
  Band band;
  band.fill(kGuard);
  std::memcpy(data, band.data(), sizeof band);
}

bool is_guard(const std::byte* data) {
  Band band;
  std::memcpy(band.data(), data, sizeof band);
  std::uint64_t differs = 0;
  for (std::uint64_t word : band) differs |= word ^ kGuard;
  return differs == 0;
}

}  // namespace

struct Memory::Block {
  std::unique_ptr<std::byte, GiveBack> storage;
  std::size_t capacity = 0;  // of the payload, without guards
  std::string_view name;
  Shape shape;
  std::size_t bytes = 0;     // payload of the live tensor
  std::size_t position = 0;  // of the live tensor in live_
  bool received = false;

  std::byte* data() const { return storage.get() + kGuardBytes; }
  bool intact() const { return is_guard(storage.get()) && is_guard(data() + bytes); }
};

namespace {

std::string title(std::string_view name, const Shape& shape) {
  return name.empty() ? "a work tensor " + shape.text() : std::string(name);
}

}  // namespace

Memory::Memory() = default;
Memory::~Memory() { lie_in(nullptr); }

Tensor Memory::allocate(std::string_view name, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * storage_bytes(dtype);
  const std::size_t index = take(bytes);
  Block& block = blocks_[index];
  block.name = name;
  block.shape = shape;
  block.bytes = bytes;
  block.position = live_.size();
  block.received = false;
  live_.push_back({block.data(), block.data() + bytes, index});
  live_bytes_ += static_cast<Index>(bytes);
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  Tensor tensor;
  tensor.view_ = View::dense(block.data(), dtype, shape);
  tensor.memory_ = this;
  tensor.block_ = index;
  frame(block, tensor.view_);
  return tensor;
}

void Memory::frame(const Block& block, const View& payload) {
  if (store_ != nullptr) {
    store_->prepare(block.storage.get(), block.bytes, poison_of(payload.dtype));
    return;
  }
  set_guard(block.storage.get());
  set_guard(block.data() + block.bytes);
  poison(payload);
}

// Blocks come in powers of two, so that a campaign's many shapes share a few sizes.
std::size_t Memory::take(std::size_t bytes) {
  const std::size_t capacity = std::bit_ceil(std::max(bytes, kSmallestBlock));
  std::vector<std::size_t>& unused = unused_of(capacity);
  if (!unused.empty()) {
    const std::size_t index = unused.back();
    unused.pop_back();
    return index;
  }
  Block block;
  block.capacity = capacity;
  const std::size_t total = capacity + 2 * kGuardBytes;
  block.storage = {store_ != nullptr ? store_->acquire(total)
                                     : static_cast<std::byte*>(
                                           ::operator new (total, std::align_val_t{kGuardBytes})),
                   GiveBack{store_}};
  blocks_.push_back(std::move(block));
  return blocks_.size() - 1;
}

std::vector<std::size_t>& Memory::unused_of(std::size_t capacity) {
  return unused_[static_cast<std::size_t>(std::countr_zero(capacity))];
}

void Memory::free(std::size_t index) {
  Block& block = blocks_[index];
  inspect(block);
  live_[block.position] = live_.back();
  blocks_[live_.back().block].position = block.position;
  live_.pop_back();
  live_bytes_ -= static_cast<Index>(block.bytes);
  if (block.received) received_bytes_ -= static_cast<Index>(block.bytes);
  unused_of(block.capacity).push_back(index);
}

void Memory::inspect(const Block& block) {
  if (store_ != nullptr) {
    store_->inspect(block.storage.get(), block.bytes, deaths_.size(), broken_in_store_);
    deaths_.push_back({block.name, block.shape});
  } else if (!block.intact()) {
    broken_.push_back(title(block.name, block.shape));
  }
}

// Mostly asked about young tensors: the youngest first.
std::size_t Memory::find(const std::byte* data) const {
  for (auto live = live_.rbegin(); live != live_.rend(); ++live) {
    if (data >= live->first && data < live->last) return live->block;
  }
  return kNone;
}

Index Memory::first_unwritten(const View& view) { return first_that_is(view, true); }

Index Memory::first_written(const View& view) { return first_that_is(view, false); }

void Memory::poison(const View& view) {
  with_storage(view, [&](auto* elements, auto poison) {
    for_each_row(view, [&](Index offset, Index length, Index stride, Index) {
      for (Index i = 0; i < length; ++i) elements[offset + i * stride] = poison;
      return true;
    });
  });
}

void Memory::mark_received(const View& view) {
  const std::size_t found = find(view.data);
  if (found == kNone || blocks_[found].received) return;
  blocks_[found].received = true;
  received_bytes_ += static_cast<Index>(blocks_[found].bytes);
  peak_received_bytes_ = std::max(peak_received_bytes_, received_bytes_);
}

std::string Memory::owner(const std::byte* data) const {
  const std::size_t found = find(data);
  return found == kNone ? std::string() : title(blocks_[found].name, blocks_[found].shape);
}

std::vector<std::string> Memory::broken_guards() const {
  std::vector<std::string> names = broken_;
  if (store_ != nullptr) {
    store_->settle();
    const std::size_t known = std::min<std::size_t>(broken_in_store_->count, BrokenGuards::kMost);
    for (std::size_t i = 0; i < known; ++i) {
      const Death& death = deaths_[broken_in_store_->numbers[i]];
      names.push_back(title(death.name, death.shape));
    }
  }
  for (const Live& live : live_) {
    if (!blocks_[live.block].intact()) {
      names.push_back(title(blocks_[live.block].name, blocks_[live.block].shape));
    }
  }
  return names;
}

void Memory::lie_in(Store* store) {
  if (store == store_) return;
  require(live_.empty(), "no tensor lives where another device keeps its own");
  if (store_ != nullptr) store_->settle();
  blocks_.clear();
  for (std::vector<std::size_t>& unused : unused_) unused.clear();
  if (store_ != nullptr) {
    store_->release(reinterpret_cast<std::byte*>(broken_in_store_));
  }
  store_ = store;
  if (store_ != nullptr) {
    broken_in_store_ = new (store_->acquire(sizeof(BrokenGuards))) BrokenGuards();
  }
}

void Memory::reset() {
  require(live_.empty(), "no tensor outlives the case that made it");
  broken_.clear();
  deaths_.clear();
  if (store_ != nullptr) {
    store_->settle();
    broken_in_store_->count = 0;
  }
  peak_bytes_ = 0;
  received_bytes_ = 0;
  peak_received_bytes_ = 0;
}

}  // namespace shardproof
