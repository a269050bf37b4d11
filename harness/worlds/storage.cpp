#include "harness/worlds/storage.h"

#include <algorithm>
#include <cstring>

namespace shardproof {
namespace {

// Calls visit(element of the view, position in dense memory), both in bytes, for every element.
template <std::size_t kBytes, typename Visit>
void for_each_element(const View& view, Visit visit) {
  const Index count = view.elements();
  if (count == 0) return;
  const int inner = view.shape.rank() - 1;
  const Index length = view.shape[inner];
  const Index step = view.strides[static_cast<std::size_t>(inner)] * Index{kBytes};
  for (Index flat = 0; flat < count; flat += length) {
    const auto at = view.shape.coordinates(flat);
    Index offset = 0;
    for (int d = 0; d < inner; ++d) {
      offset += at[static_cast<std::size_t>(d)] * view.strides[static_cast<std::size_t>(d)];
    }
    std::byte* element = view.data + offset * Index{kBytes};
    for (Index i = 0; i < length; ++i) visit(element + i * step, (flat + i) * Index{kBytes});
  }
}

template <std::size_t kBytes>
void pack_elements(const View& from, std::byte* to) {
  for_each_element<kBytes>(from, [to](const std::byte* element, Index position) {
    std::memcpy(to + position, element, kBytes);
  });
}

template <std::size_t kBytes>
void unpack_elements(const std::byte* from, const View& to) {
  for_each_element<kBytes>(to, [from](std::byte* element, Index position) {
    std::memcpy(element, from + position, kBytes);
  });
}

}  // namespace

void store_all(DType type, std::span<const double> values, std::byte* to) {
  switch (type) {
    case DType::kF64:
      std::copy(values.begin(), values.end(), reinterpret_cast<double*>(to));
      return;
    case DType::kF32:
    case DType::kTf32:
      std::transform(values.begin(), values.end(), reinterpret_cast<float*>(to),
                     [](double value) { return static_cast<float>(value); });
      return;
    case DType::kBf16:
      std::transform(values.begin(), values.end(), reinterpret_cast<std::uint16_t*>(to),
                     [](double value) { return bf16_bits(static_cast<float>(value)); });
      return;
    case DType::kF16:
      std::transform(values.begin(), values.end(), reinterpret_cast<std::uint16_t*>(to),
                     [](double value) { return f16_bits(static_cast<float>(value)); });
      return;
  }
}

void load_all(DType type, const std::byte* from, std::span<double> values) {
  const std::size_t count = values.size();
  if (type == DType::kF64) {
    std::copy_n(reinterpret_cast<const double*>(from), count, values.begin());
  } else if (type == DType::kF32 || type == DType::kTf32) {
    std::copy_n(reinterpret_cast<const float*>(from), count, values.begin());
  } else {
    const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
    std::transform(bits, bits + count, values.begin(),
                   type == DType::kBf16 ? bf16_value : f16_value);
  }
}

void pack(const View& from, std::byte* to) {
  const std::size_t bytes = storage_bytes(from.dtype);
  (bytes == 2 ? pack_elements<2> : bytes == 4 ? pack_elements<4> : pack_elements<8>)(from, to);
}

void unpack(const std::byte* from, const View& to) {
  const std::size_t bytes = storage_bytes(to.dtype);
  (bytes == 2   ? unpack_elements<2>
   : bytes == 4 ? unpack_elements<4>
                : unpack_elements<8>)(from, to);
}

const std::byte* packed_bytes(const View& view, std::vector<std::byte>& room) {
  if (view.is_dense()) return view.data;
  room.resize(view.bytes());
  pack(view, room.data());
  return room.data();
}

}  // namespace shardproof
