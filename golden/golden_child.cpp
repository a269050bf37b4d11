#include "golden/golden_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <span>
#include <string_view>

#include "harness/model/require.h"

extern "C" [[gnu::weak]] void __asan_init();  // there in builds with sanitizers

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnswers = STDERR_FILENO + 1;  // the child's end of the pipe

// The first byte of an answer.
enum class Answer : char { kBytes = 'b', kError = 'e' };

void limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit value{soft, hard};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) {
    throw Error(fmt::format("cannot limit the reading process: {}", std::strerror(errno)));
  }
}

// Of this process, which has inherited the parent's memory (and a sanitizer's shadow).
rlim_t mapped_bytes() {
  std::ifstream statistics("/proc/self/statm");
  rlim_t pages = 0;
  statistics >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// Nothing stays open but `pipe`, as kAnswers; nothing can be opened or made longer. But for
// sanitizers, which look at memory through a pipe of their own.
void confine_files(int pipe) {
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, descriptor);
  ::dup2(pipe, kAnswers);
  ::close_range(kAnswers + 1, ~0U, 0);
  const rlim_t files = __asan_init != nullptr ? kAnswers + 3 : 0;
  limit(RLIMIT_NOFILE, files, files);
  limit(RLIMIT_FSIZE, 0, 0);
}

void confine(int pipe, const ChildLimits& limits) {
  const rlim_t memory = mapped_bytes() + limits.memory_bytes;
  confine_files(pipe);  // first: what else goes wrong is said on kAnswers
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) {
    ::signal(signal, SIG_DFL);
  }
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_AS, memory, memory);
  const auto seconds = static_cast<rlim_t>(limits.processor_seconds);
  limit(RLIMIT_CPU, seconds, seconds + 1);
}

// Without a reader the child ends by SIGPIPE or sees an error; there is nobody left to tell.
void send_all(int pipe, const void* data, std::size_t bytes) {
  const auto* rest = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(pipe, rest, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ::_exit(1);
    rest += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void send_answer(int pipe, Answer kind, const void* data, std::size_t bytes) {
  send_all(pipe, &kind, 1);
  send_all(pipe, data, bytes);
}

[[noreturn]] void run_child(int pipe, const std::function<std::vector<std::byte>()>& work,
                            const ChildLimits& limits) {
  try {
    confine(pipe, limits);
    const std::vector<std::byte> bytes = work();
    send_answer(kAnswers, Answer::kBytes, bytes.data(), bytes.size());
  } catch (const std::bad_alloc&) {
    const std::string text =
        fmt::format("reading it takes more than {} MiB of memory", limits.memory_bytes >> 20);
    send_answer(kAnswers, Answer::kError, text.data(), text.size());
  } catch (const std::exception& error) {
    send_answer(kAnswers, Answer::kError, error.what(), std::strlen(error.what()));
  }
  ::_exit(0);  // no destructors or exit handlers of the parent
}

struct Received {
  std::vector<char> bytes;
  bool in_time = true;
  bool too_long = false;
};

Received receive(int pipe, const ChildLimits& limits) {
  const auto deadline = Clock::now() + limits.wall;
  Received received;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{pipe, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return received.in_time = false, received;
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return received;
    received.bytes.insert(received.bytes.end(), buffer.begin(), buffer.begin() + count);
    if (received.bytes.size() > limits.answer_bytes) return received.too_long = true, received;
  }
}

// Ends the child if it has not ended, and says how it ended.
int reap(pid_t child, bool kill) {
  if (kill) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string unhappy_ending(int status, const ChildLimits& limits) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("reading it ended with exit code {}", WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGXCPU) {
    return fmt::format("reading it takes more than {} s of processor time",
                       limits.processor_seconds);
  }
  return fmt::format("reading it crashed ({})", ::strsignal(signal));
}

}  // namespace

std::vector<std::byte> in_limited_child(const std::function<std::vector<std::byte>()>& work,
                                        const ChildLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], work, limits);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  const Received received = receive(ends[0], limits);
  ::close(ends[0]);
  const int status = reap(child, !received.in_time || received.too_long);
  if (!received.in_time) {
    throw Error(fmt::format("reading it takes more than {} s", limits.wall.count() / 1000.0));
  }
  if (received.too_long) throw Error("it holds too much data");
  if (status != 0 || received.bytes.empty()) throw Error(unhappy_ending(status, limits));
  const std::span<const char> body = std::span(received.bytes).subspan(1);
  if (received.bytes[0] == static_cast<char>(Answer::kError)) {
    throw Error(std::string(body.begin(), body.end()));
  }
  const auto* first = reinterpret_cast<const std::byte*>(body.data());
  return {first, first + body.size()};
}

}  // namespace shardproof
