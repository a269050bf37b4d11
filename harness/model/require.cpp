#include "harness/model/require.h"

#include <cstdio>
#include <cstdlib>

namespace shardproof {
namespace {

// Diagnostic only: never read by anything that computes a result.
thread_local std::string current_case = "(none)";

}  // namespace

void set_case_for_require(std::string text) { current_case = std::move(text); }

void fail_requirement(std::string_view rule, std::source_location where) {
  std::fprintf(stderr, "shardproof: internal rule broken: %.*s\n  at %s:%u\n  case: %s\n",
               static_cast<int>(rule.size()), rule.data(), where.file_name(), where.line(),
               current_case.c_str());
  std::abort();
}

}  // namespace shardproof
