// Fuzz target: bytes are no golden, neither the file nor what the reading child hands over, or the
// golden in them comes back when it is written and read again. HDF5 reads in this process; it
// checks sums, so that it meets accidents here and not what is forged (damage_test.cpp has that).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "golden/golden_bytes.h"
#include "golden/golden_file.h"
#include "golden/golden_format.h"
#include "harness/model/require.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t limit);

namespace shardproof {
namespace {

using Bytes = std::span<const std::byte>;

std::optional<Golden> read(Bytes bytes, Golden (*reader)(Bytes)) {
  try {
    return reader(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Golden from_image(Bytes image) { return from_bytes(to_bytes(parse_image(image))); }

}  // namespace
}  // namespace shardproof

// Seeds are files: now and then one becomes the bytes that the child would hand over.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t limit, unsigned seed) {
  using namespace shardproof;
  constexpr unsigned kEvery = 8;
  if (seed % kEvery == 0) {
    if (const auto golden = read(std::as_bytes(std::span(data, size)), from_image)) {
      const auto bytes = to_bytes(*golden);
      if (bytes.size() <= limit) {
        std::ranges::copy(bytes, reinterpret_cast<std::byte*>(data));
        return bytes.size();
      }
    }
  }
  return LLVMFuzzerMutate(data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardproof;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  auto golden = read(bytes, from_image);
  if (!golden) golden = read(bytes, from_bytes);
  if (!golden) return 0;
  require(golden_format::broken_rule(*golden).empty(), "what was read keeps the rules");
  // Images are compared, not goldens: writing gives every NaN of 16 bits the same form.
  const auto image = golden_image(*golden);
  const auto again = read(image, from_image);
  require(again.has_value(), "what was written can be read");
  require(golden_image(*again) == image, "what was read is written as before");
  return 0;
}
