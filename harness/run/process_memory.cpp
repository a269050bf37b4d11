#include "harness/run/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace shardproof {

std::uint64_t data_bytes() {
  constexpr std::uint64_t kReserved = std::uint64_t{1} << 40;
  // All, resident, shared, text, a zero, data and stack, in pages.
  constexpr int kPosition = 5;
  std::array<char, 256> text{};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? -1 : read(file, text.data(), text.size() - 1);
  if (file >= 0) close(file);
  if (size < 0) return 0;
  char* rest = text.data();
  for (int i = 0; i < kPosition; ++i) std::strtoull(rest, &rest, 10);
  const std::uint64_t pages = std::strtoull(rest, nullptr, 10);
  const std::uint64_t bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes > kReserved ? 0 : bytes;
}

}  // namespace shardproof
