#include <array>
#include <cmath>
#include <cstring>

#include "harness/devices/cpu.h"

namespace shardproof {
namespace {

// Long rows are worked on in pieces that stay in the cache.
constexpr Index kPiece = 512;

DType wider(DType a, DType b) {
  return a == DType::kF64 || b == DType::kF64 ? DType::kF64 : DType::kF32;
}

struct RowOffsets {
  Index a = 0;  // in elements
  Index b = 0;
};

// Calls visit(offsets of a row's first element, stride in a, stride in b, count) for every
// innermost row of two views of one shape; one long row where both are dense.
template <typename Visit>
void for_each_row(const View& a, const View& b, Visit&& visit) {
  require(a.shape == b.shape, "element-wise kernels take views of one shape");
  const Index elements = a.elements();
  if (elements == 0) return;
  const int inner = a.shape.rank() - 1;
  if (inner < 0 || (a.is_dense() && b.is_dense())) return visit(RowOffsets{}, 1, 1, elements);
  const auto last = static_cast<std::size_t>(inner);
  std::array<Index, Shape::kMaximumRank> at{};
  RowOffsets offsets;
  for (Index row = elements / a.shape[inner]; row > 0; --row) {
    visit(offsets, a.strides[last], b.strides[last], a.shape[inner]);
    for (int d = inner - 1; d >= 0; --d) {
      const auto u = static_cast<std::size_t>(d);
      offsets.a += a.strides[u];
      offsets.b += b.strides[u];
      if (++at[u] < a.shape[d]) break;
      offsets.a -= at[u] * a.strides[u];
      offsets.b -= at[u] * b.strides[u];
      at[u] = 0;
    }
  }
}

// Calls change(values of `from`, values of `to`, count) on pieces of rows, in T; `to` is written
// back. `reads_target` says whether change() needs the old values.
template <typename T, typename Change>
void transform(const View& from, const View& to, bool reads_target, Change&& change) {
  const Index from_bytes = static_cast<Index>(storage_bytes(from.dtype));
  const Index to_bytes = static_cast<Index>(storage_bytes(to.dtype));
  std::array<T, kPiece> source;
  std::array<T, kPiece> target;
  for_each_row(from, to, [&](RowOffsets offsets, Index from_stride, Index to_stride, Index count) {
    for (Index first = 0; first < count; first += kPiece) {
      const Index length = std::min(kPiece, count - first);
      const std::byte* read = from.data + (offsets.a + first * from_stride) * from_bytes;
      std::byte* write = to.data + (offsets.b + first * to_stride) * to_bytes;
      cpu::read_elements(from.dtype, read, from_stride, length, source.data());
      if (reads_target) {
        cpu::read_elements(to.dtype, write, to_stride, length, target.data());
      }
      change(source.data(), target.data(), length);
      cpu::write_elements(target.data(), to.dtype, write, to_stride, length);
    }
  });
}

}  // namespace

void CpuDevice::copy(const View& from, const View& to) {
  if (from.dtype == to.dtype && from.shape == to.shape && from.is_dense() && to.is_dense()) {
    if (from.bytes() > 0) std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  cpu::in_precision(wider(from.dtype, to.dtype), [&](auto zero) {
    using T = decltype(zero);
    transform<T>(from, to, false, [](const T* source, T* target, Index count) {
      std::copy(source, source + count, target);
    });
  });
}

void CpuDevice::fill(const View& target, double value) {
  cpu::with_storage(target.dtype, [&](auto storage) {
    using Storage = decltype(storage);
    const auto bits = cpu::narrowed<Storage>(value);
    auto* data = reinterpret_cast<typename Storage::Bits*>(target.data);
    for_each_row(target, target, [&](RowOffsets offsets, Index stride, Index, Index count) {
      for (Index i = 0; i < count; ++i) data[offsets.a + i * stride] = bits;
    });
  });
}

void CpuDevice::add(const View& from, const View& target) {
  cpu::in_precision(wider(from.dtype, target.dtype), [&](auto zero) {
    using T = decltype(zero);
    transform<T>(from, target, true, [](const T* source, T* sum, Index count) {
      for (Index i = 0; i < count; ++i) sum[i] += source[i];
    });
  });
}

void CpuDevice::divide(const View& divisor, const View& target) {
  cpu::in_precision(wider(divisor.dtype, target.dtype), [&](auto zero) {
    using T = decltype(zero);
    transform<T>(divisor, target, true, [](const T* below, T* quotient, Index count) {
      for (Index i = 0; i < count; ++i) quotient[i] /= below[i];
    });
  });
}

void CpuDevice::at_least(double least, const View& target) {
  cpu::in_precision(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    transform<T>(target, target, false, [&](const T* source, T* raised, Index count) {
      for (Index i = 0; i < count; ++i) raised[i] = std::max(source[i], static_cast<T>(least));
    });
  });
}

void CpuDevice::square_root(const View& target) {
  cpu::in_precision(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    transform<T>(target, target, false, [](const T* source, T* root, Index count) {
      for (Index i = 0; i < count; ++i) root[i] = std::sqrt(source[i]);
    });
  });
}

void CpuDevice::round(const View& target, DType dtype) {
  if (dtype == target.dtype || dtype == DType::kF64) return;
  cpu::in_precision(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    transform<T>(target, target, false, [&](const T* source, T* rounded, Index count) {
      std::copy(source, source + count, rounded);
      cpu::round_elements(dtype, rounded, count);
    });
  });
}

void CpuDevice::copy_kept(const View& from, std::span<const std::uint8_t> keep, const View& to) {
  require(static_cast<Index>(keep.size()) == from.shape[0] && from.shape == to.shape,
          "copy_kept: a byte an entry");
  // Runs of equal bytes at a time.
  for (Index first = 0, count = 0; first < from.shape[0]; first += count) {
    const auto run = keep.subspan(static_cast<std::size_t>(first));
    const auto end = std::find_if(run.begin(), run.end(),
                                  [&](std::uint8_t byte) { return (byte != 0) != (run[0] != 0); });
    count = end - run.begin();
    if (run[0] != 0) {
      copy(from.slice(0, first, count), to.slice(0, first, count));
    } else {
      fill(to.slice(0, first, count), 0);
    }
  }
}

void CpuDevice::add_row(const View& bias, const View& target) {
  require(bias.shape == Shape({target.shape[1]}), "add_row: one bias a column");
  cpu::in_precision(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    const cpu::Rows<T> rows(target, scratch_, 0);
    const cpu::Rows<T> addends(bias, scratch_, 1);
    const T* added = addends.read(0);
    for (Index i = 0; i < target.shape[0]; ++i) {
      T* row = rows.read(i);
      for (Index j = 0; j < rows.count(); ++j) row[j] += added[j];
      rows.write(i);
    }
  });
}

void CpuDevice::column_sums(const View& from, const View& sums) {
  require(sums.shape == Shape({from.shape[1]}), "column_sums: one sum a column");
  cpu::in_precision(wider(from.dtype, sums.dtype), [&](auto zero) {
    using T = decltype(zero);
    const cpu::Rows<T> rows(from, scratch_, 0);
    T* sum = scratch_.get<T>(1, rows.count());
    std::fill(sum, sum + rows.count(), T{0});
    for (Index i = 0; i < from.shape[0]; ++i) {
      const T* row = rows.read(i);
      for (Index j = 0; j < rows.count(); ++j) sum[j] += row[j];
    }
    cpu::write_elements(sum, sums.dtype, sums.data, sums.strides[0], rows.count());
  });
}

}  // namespace shardproof
