#include "harness/check/part.h"

#include <fmt/format.h>

#include <charconv>

#include "harness/model/element.h"
#include "harness/model/require.h"

namespace shardproof {

Part Part::parse(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000;
  const char* end = text.data() + text.size();
  std::uint64_t which = 0;
  Part part;
  const auto [slash, first] = std::from_chars(text.data(), end, which);
  if (first == std::errc() && slash != end && *slash == '/') {
    const auto [rest, second] = std::from_chars(slash + 1, end, part.count);
    part.index = which - 1;
    const bool fits = which > 0 && which <= part.count && part.count <= kMost;
    if (second == std::errc() && rest == end && fits) return part;
  }
  throw Error(
      fmt::format("--part: '{}' is not I/N, as in 2/4 for the second of four parts (N at most {})",
                  text, kMost));
}

std::string Part::text() const { return fmt::format("{}/{}", index + 1, count); }

// Each block of `count` numbers has one for every part; a hash of the block says which, so that no
// part gets all of a regular series, such as the turns of pairs.
std::uint64_t Part::nth(std::uint64_t position) const {
  return position * count + (index + mix(position) % count) % count;
}

std::uint64_t Part::share(std::uint64_t total) const {
  const std::uint64_t blocks = total / count;
  return blocks + (nth(blocks) < total ? 1 : 0);
}

}  // namespace shardproof
