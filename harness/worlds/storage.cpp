#include "harness/worlds/storage.h"

#include <algorithm>

namespace shardproof {

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

}  // namespace shardproof
