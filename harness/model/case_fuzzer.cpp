// Fuzz target: the text of a case is refused with an Error, or its canonical text is that of the
// same case.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "harness/model/require.h"
#include "reference/operators.h"

namespace shardproof {
namespace {

// Of subjects, worlds and devices a text holds no more than the names.
Vocabulary vocabulary() {
  return {all_operators(),
          all_masks(),
#define SUBJECT(name) #name,
          {
#include "parallel_impls/subjects.def"
          },
#undef SUBJECT
#define WORLD(name) #name,
          {
#include "harness/worlds/worlds.def"
          },
#undef WORLD
#define DEVICE(name) #name,
          {
#include "harness/devices/devices.def"
          }};
#undef DEVICE
}

std::optional<Case> parsed(std::string_view text) {
  static const Vocabulary all = vocabulary();
  try {
    return parse_case(text, all);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace shardproof

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardproof;
  const auto value = parsed({reinterpret_cast<const char*>(data), size});
  if (!value) return 0;
  const std::string text = to_text(*value);
  const auto again = parsed(text);
  require(again.has_value(), "the text of a case is one");
  require(*again == *value && to_text(*again) == text, "the text of a case is that of this case");
  return 0;
}
