// Elements of any storage type as float or double, and strided views walked row by row: what every
// kernel of the cpu device is written in. Narrowing rounds once, to nearest, ties to even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "harness/model/require.h"
#include "harness/run/tensor.h"

namespace shardproof::cpu {

// One storage type: how its bits widen to and narrow from float.
struct F32 {
  using Bits = float;
  static float widen(Bits bits) { return bits; }
  static Bits narrow(float value) { return value; }
};

struct Tf32 {
  using Bits = float;
  static float widen(Bits bits) { return bits; }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
    return std::bit_cast<float>((bits & 0x7f800000u) == 0x7f800000u ? bits : rounded);
  }
};

struct Bf16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<Bits>((is_nan ? bits | 0x400000u : rounded) >> 16);
  }
};

struct F16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    // The exponents differ by 112, which a product repairs for subnormals too.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
  }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t normal =
        (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // A subnormal is a multiple of 2^-24, the distance of floats around 1/2.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and more
    result = magnitude > 0x7f800000u ? 0x7e00u : result;   // NaN
    return static_cast<Bits>(sign | result);
  }
};

struct F64 {
  using Bits = double;
  static double widen(Bits bits) { return bits; }
  static Bits narrow(double value) { return value; }
};

// Calls visit(storage type) for `dtype`.
template <typename Visit>
void with_storage(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kF64:
      return visit(F64{});
    case DType::kF32:
      return visit(F32{});
    case DType::kTf32:
      return visit(Tf32{});
    case DType::kBf16:
      return visit(Bf16{});
    case DType::kF16:
      return visit(F16{});
  }
}

// Calls compute(T{}) with the type in which views of these dtypes are computed.
template <typename Compute>
void in_precision(DType dtype, Compute&& compute) {
  if (dtype == DType::kF64) {
    compute(double{});
  } else {
    compute(float{});
  }
}

// `value` narrowed to a storage type without rounding twice.
template <typename Storage, typename T>
typename Storage::Bits narrowed(T value) {
  if constexpr (std::is_same_v<T, double> && !std::is_same_v<Storage, F64>) {
    constexpr DType dtype = std::is_same_v<Storage, F32>    ? DType::kF32
                            : std::is_same_v<Storage, Tf32> ? DType::kTf32
                            : std::is_same_v<Storage, Bf16> ? DType::kBf16
                                                            : DType::kF16;
    return Storage::narrow(static_cast<float>(round_to(dtype, value)));
  } else {
    return Storage::narrow(value);
  }
}

// `count` elements that are `stride` apart, as T.
template <typename T>
void read_elements(DType dtype, const std::byte* data, Index stride, Index count, T* to) {
  with_storage(dtype, [&](auto storage) {
    using Storage = decltype(storage);
    const auto* from = reinterpret_cast<const typename Storage::Bits*>(data);
    if (stride == 1) {
      for (Index i = 0; i < count; ++i) to[i] = static_cast<T>(Storage::widen(from[i]));
    } else {
      for (Index i = 0; i < count; ++i) to[i] = static_cast<T>(Storage::widen(from[i * stride]));
    }
  });
}

template <typename T>
void write_elements(const T* from, DType dtype, std::byte* data, Index stride, Index count) {
  with_storage(dtype, [&](auto storage) {
    using Storage = decltype(storage);
    auto* to = reinterpret_cast<typename Storage::Bits*>(data);
    if (stride == 1) {
      for (Index i = 0; i < count; ++i) to[i] = narrowed<Storage>(from[i]);
    } else {
      for (Index i = 0; i < count; ++i) to[i * stride] = narrowed<Storage>(from[i]);
    }
  });
}

// Rounds to `dtype` in place.
template <typename T>
void round_elements(DType dtype, T* values, Index count) {
  with_storage(dtype, [&](auto storage) {
    using Storage = decltype(storage);
    for (Index i = 0; i < count; ++i) {
      values[i] = static_cast<T>(Storage::widen(narrowed<Storage>(values[i])));
    }
  });
}

// Whether memory of `dtype` can be used as T's as it stands.
template <typename T>
bool is_stored_as(DType dtype) {
  return std::is_same_v<T, double> ? dtype == DType::kF64
                                   : dtype == DType::kF32 || dtype == DType::kTf32;
}

// Work memory that only grows. What it holds is lost at the next call for the same slot.
class Scratch {
 public:
  template <typename T>
  T* get(std::size_t slot, Index count) {
    Slot& wanted = slots_[slot];
    if (wanted.capacity < count) {
      wanted.capacity = static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(count)));
      wanted.words.reset(new double[static_cast<std::size_t>(wanted.capacity)]);
    }
    return reinterpret_cast<T*>(wanted.words.get());
  }

  static constexpr std::size_t kSlots = 8;

 private:
  struct Slot {
    std::unique_ptr<double[]> words;
    Index capacity = 0;
  };
  Slot slots_[kSlots];
};

// The rows of a [rows, n] or [n] view as T: in place where the memory allows it, else copied to
// `slot` of the scratch, one row at a time.
template <typename T>
class Rows {
 public:
  Rows(const View& view, Scratch& scratch, std::size_t slot) : dtype_(view.dtype) {
    const int last = view.shape.rank() - 1;
    require(last == 0 || last == 1, "row kernels take vectors and matrices");
    data_ = view.data;
    count_ = view.shape[last];
    stride_ = view.strides[static_cast<std::size_t>(last)];
    row_stride_ = last == 1 ? view.strides[0] : 0;
    direct_ = is_stored_as<T>(dtype_) && (stride_ == 1 || count_ == 1);
    if (!direct_) copy_ = scratch.get<T>(slot, count_);
  }

  Index count() const { return count_; }

  // The values of `row`. Changes become permanent by write().
  T* read(Index row) const {
    if (direct_) return reinterpret_cast<T*>(at(row));
    read_elements(dtype_, at(row), stride_, count_, copy_);
    return copy_;
  }

  // Where the values of `row` go; they are not read.
  T* open(Index row) const { return direct_ ? reinterpret_cast<T*>(at(row)) : copy_; }

  void write(Index row) const {
    if (!direct_) {
      write_elements(copy_, dtype_, at(row), stride_, count_);
    } else if (dtype_ == DType::kTf32) {
      round_elements(dtype_, reinterpret_cast<T*>(at(row)), count_);
    }
  }

 private:
  std::byte* at(Index row) const {
    return data_ + row * row_stride_ * static_cast<Index>(storage_bytes(dtype_));
  }

  DType dtype_;
  std::byte* data_ = nullptr;
  Index count_ = 0;
  Index stride_ = 1;
  Index row_stride_ = 0;
  bool direct_ = false;
  T* copy_ = nullptr;
};

}  // namespace shardproof::cpu
