#include "harness/worlds/storage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shardproof {
namespace {

TEST(Storage, EveryTypeComesBackAsItWas) {
  for (DType type : all_dtypes()) {
    const Format& f = format(type);
    std::vector<double> values{0,
                               -0.0,
                               1,
                               -1.5,
                               f.maximum,
                               2 * f.eta(),
                               f.minimum_normal(),
                               -std::numeric_limits<double>::infinity(),
                               std::nan("")};
    std::vector<std::byte> stored(values.size() * storage_bytes(type));
    store_all(type, values, stored.data());
    std::vector<double> got(values.size());
    load_all(type, stored.data(), got);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      EXPECT_EQ(got[i], values[i]) << f.name << " element " << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(values[i]));
      EXPECT_EQ(load(type, stored.data(), static_cast<std::ptrdiff_t>(i)), values[i]);
    }
    EXPECT_TRUE(std::isnan(got.back())) << f.name;
  }
}

TEST(Storage, AViewIsPackedInRowMajorOrderAndUnpackedAgain) {
  for (DType type : {DType::kBf16, DType::kF32, DType::kF64}) {
    const std::size_t size = storage_bytes(type);
    std::vector<std::byte> memory(24 * size);
    for (Index i = 0; i < 24; ++i) store(type, memory.data(), i, static_cast<double>(i));
    const View dense = View::dense(memory.data(), type, {4, 6});
    const View view = dense.slice(1, 1, 2).transposed(0, 1);
    std::vector<std::byte> room;
    const std::byte* packed = packed_bytes(view, room);
    std::vector<double> values(8);
    load_all(type, packed, values);
    EXPECT_EQ(values, (std::vector<double>{1, 7, 13, 19, 2, 8, 14, 20}));
    EXPECT_EQ(packed_bytes(dense, room), memory.data());

    std::vector<std::byte> copy(24 * size);
    View target = view;
    target.data = copy.data() + (view.data - memory.data());
    unpack(packed, target);
    EXPECT_EQ(target.get({1, 3}), 20);
    EXPECT_EQ(View::dense(copy.data(), type, {4, 6}).get({3, 3}), 0);
  }
}

}  // namespace
}  // namespace shardproof
