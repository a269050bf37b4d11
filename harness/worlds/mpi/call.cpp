#include "harness/worlds/mpi/call.h"

#include <fmt/format.h>

#include <array>

namespace shardproof {

void check_mpi(int code, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(fmt::format("{} ({} in {})", text.data(), where.line(), where.function_name()));
}

}  // namespace shardproof
