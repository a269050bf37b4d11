#include "golden/golden_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "harness/model/require.h"

extern "C" [[gnu::weak]] void __asan_init();

namespace shardproof {
namespace {

using Bytes = std::vector<std::byte>;

std::string complaint(const std::function<Bytes()>& work, const ChildLimits& limits = {}) {
  try {
    in_limited_child(work, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LimitedChild, HandsItsBytesOver) {
  Bytes large(1000000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7);
  EXPECT_EQ(in_limited_child([&] { return large; }), large);
  EXPECT_EQ(in_limited_child([] { return Bytes{}; }), Bytes{});
}

TEST(LimitedChild, HandsItsErrorsOver) {
  EXPECT_EQ(complaint([]() -> Bytes { throw Error("no such thing"); }), "no such thing");
}

TEST(LimitedChild, ACrashIsAnError) {
  const auto ended_by = [](int signal) {
    return complaint([=]() -> Bytes { return ::kill(::getpid(), signal), ::pause(), Bytes{}; });
  };
  EXPECT_EQ(ended_by(SIGSEGV), "reading it crashed (Segmentation fault)");
  EXPECT_EQ(ended_by(SIGKILL), "reading it crashed (Killed)");
  EXPECT_EQ(complaint([]() -> Bytes { ::_exit(3); }), "reading it ended with exit code 3");
  EXPECT_EQ(complaint([]() -> Bytes { ::_exit(0); }), "reading it ended with exit code 0");
}

TEST(LimitedChild, AHangIsAnError) {
  ChildLimits limits;
  limits.wall = std::chrono::milliseconds(200);
  EXPECT_EQ(complaint([]() -> Bytes { return ::pause(), Bytes{}; }, limits),
            "reading it takes more than 0.2 s");
}

TEST(LimitedChild, SpinningIsAnError) {
  ChildLimits limits;
  limits.processor_seconds = 1;
  const auto spin = []() -> Bytes {
    volatile std::uint64_t turns = 0;
    while (true) turns = turns + 1;
  };
  EXPECT_EQ(complaint(spin, limits), "reading it takes more than 1 s of processor time");
}

TEST(LimitedChild, MemoryIsLimited) {
  ChildLimits limits;
  limits.memory_bytes = std::size_t{256} << 20;
  const auto map = [](std::size_t bytes) {
    return [bytes]() -> Bytes {
      void* area = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (area == MAP_FAILED) throw std::bad_alloc();
      return {};
    };
  };
  EXPECT_EQ(complaint(map(std::size_t{128} << 20), limits), "");
  EXPECT_EQ(complaint(map(std::size_t{512} << 20), limits),
            "reading it takes more than 256 MiB of memory");
}

// How many files this process can open.
int opened() {
  std::vector<int> files;
  for (int file = 0; (file = ::open("/dev/null", O_RDWR)) >= 0;) files.push_back(file);
  const bool is_limit = errno == EMFILE;
  for (int file : files) ::close(file);
  return is_limit ? static_cast<int>(files.size()) : -1;
}

TEST(LimitedChild, HasNoFilesAndGetsNone) {
  const int file = ::fcntl(STDERR_FILENO, F_DUPFD, 100);
  ASSERT_GE(file, 100);
  const auto look = [&]() -> Bytes {
    if (::fcntl(file, F_GETFD) >= 0) throw Error("a file of the parent is open");
    if (opened() != (__asan_init != nullptr ? 2 : 0)) throw Error("a file can be opened");
    rlimit longest{1, 1};
    ::getrlimit(RLIMIT_FSIZE, &longest);
    if (longest.rlim_cur != 0 || longest.rlim_max != 0) throw Error("a file can grow");
    return {};
  };
  EXPECT_EQ(complaint(look), "");
  ::close(file);
}

TEST(LimitedChild, AnEndlessAnswerIsAnError) {
  ChildLimits limits;
  limits.answer_bytes = 1000;
  EXPECT_EQ(complaint([] { return Bytes(100000); }, limits), "it holds too much data");
}

}  // namespace
}  // namespace shardproof
