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

}  // namespace
}  // namespace shardproof
