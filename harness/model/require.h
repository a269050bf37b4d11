// The two ways to stop that are not verdicts: require() for our own mistakes (aborts, on in every
// build) and Error for what the user or the environment got wrong (caught once, in main).
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof {

// Thrown for bad input or a bad environment. The text names the value, the rule and the choices.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The text of the case being judged, printed when require() fails. Owned by the caller.
void set_case_for_require(std::string text);

[[noreturn]] void fail_requirement(std::string_view rule, std::source_location where);

// Aborts, printing `rule`, the call site and the current case, unless `holds`.
inline void require(bool holds, std::string_view rule,
                    std::source_location where = std::source_location::current()) {
  if (!holds) fail_requirement(rule, where);
}

}  // namespace shardproof
