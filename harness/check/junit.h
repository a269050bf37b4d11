// Junit: what a JUnit file of this program says: a test case for every subject and property. Files
// of several campaigns, or of one in parts, join to one; joining the same twice changes nothing.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "harness/check/tally.h"

namespace shardproof {

struct JunitCase {
  bool fails = false;
  bool is_judged = false;                       // neither skipped nor failing
  std::map<std::string, std::string> failures;  // by signature: the case and its message
};

struct Junit {
  std::map<std::pair<std::string, std::string>, JunitCase> cases;  // by (subject, property)
  double seconds = 0;

  static Junit of(const Tally& tally);

  // Throws Error when it was not written by text() or is not whole.
  static Junit parse(std::string_view xml);

  std::string text() const;
  void join(const Junit& other);
};

}  // namespace shardproof
