#include "harness/worlds/mpi/watcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>

#include "harness/model/require.h"
#include "harness/worlds/mpi_wire.h"
#include "harness/worlds/process.h"

namespace shardproof {
namespace {

constexpr std::size_t kWordsKept = 1024;

double processor_seconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The letter after the name in parentheses, which may hold anything (man 5 proc).
char process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() ? '?' : line[end + 2];
}

class Watcher {
 public:
  Watcher(pid_t rank, int ready, int printed, RankStatus& status)
      : rank_(rank), ready_(ready), printed_(printed), status_(status) {
    make_nonblocking(printed_);
  }

  [[noreturn]] void watch(const std::string& address, const std::string& token) {
    const int handle = process_handle(rank_);
    for (;;) {
      std::array<pollfd, 4> events{{{handle, POLLIN, 0},
                                    {printed_, POLLIN, 0},
                                    {wire_.descriptor(), POLLIN, 0},
                                    {wire_.is_open() ? -1 : ready_, POLLIN, 0}}};
      poll(events.data(), events.size(), -1);
      if (events[1].revents != 0) listen();
      if (events[0].revents != 0) end();
      if (events[3].revents != 0) connect(address, token);
      if (events[2].revents != 0 && !answer()) {
        kill(rank_, SIGKILL);  // the driver is gone
        end();
      }
    }
  }

 private:
  void connect(const std::string& address, const std::string& token) {
    char byte = 0;
    if (read(ready_, &byte, 1) != 1) {  // it ended before it was ready: the pipe stays readable
      ready_ = -1;
      return;
    }
    wire_ = connect_to(address);
    wire_.send(Greeting{token, true, status_.rank, status_.ranks}.packed());
  }

  // False when nobody asks any more.
  bool answer() {
    const bool is_there = wire_.read_available();
    std::string question;
    while (wire_.take(question)) wire_.send(report().packed());
    return is_there;
  }

  Report report() {
    listen();
    Report report;
    report.activity = status_.read();
    report.processor_seconds = processor_seconds(rank_);
    const char state = process_state(rank_);
    report.is_stopped = state == 'T' || state == 't';
    report.is_asleep = state == 'S' || state == 'D';
    report.words = words_;
    return report;
  }

  // What a rank prints in bulk is read and forgotten but for its end.
  void listen() {
    std::array<char, 1 << 14> chunk;
    for (;;) {
      const ssize_t count = read(printed_, chunk.data(), chunk.size());
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        printed_ = -1;  // closed by the rank
        return;
      }
      words_.append(chunk.data(), static_cast<std::size_t>(count));
      if (words_.size() > kWordsKept) words_.erase(0, words_.size() - kWordsKept);
    }
  }

  [[noreturn]] void end() {
    Report last = report();
    last.has_ended = true;
    while (waitpid(rank_, &last.status, 0) < 0 && errno == EINTR) {
    }
    last.is_stopped = last.is_asleep = false;
    if (wire_.is_open()) {
      wire_.send(last.packed());
    } else if (!words_.empty() && write(STDERR_FILENO, words_.data(), words_.size()) < 0) {
      _exit(1);  // nobody wants to know why it did not start
    }
    _exit(WIFEXITED(last.status) ? WEXITSTATUS(last.status) : 128 + WTERMSIG(last.status));
  }

  pid_t rank_;
  int ready_;
  int printed_;
  RankStatus& status_;
  Wire wire_;
  std::string words_;
};

// Nothing that a subject does to its process may outlive it or reach a terminal.
void become_rank(pid_t watcher, int printed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != watcher) _exit(0);  // it died before the line above
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(printed, STDOUT_FILENO);
  dup2(printed, STDERR_FILENO);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

}  // namespace

int fork_watched_rank(const std::string& address, const std::string& token, RankStatus& status) {
  const pid_t launcher = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(0);
  const Pipe ready = make_pipe();
  const Pipe printed = make_pipe();
  const pid_t watcher = getpid();
  const pid_t rank = fork();
  if (rank < 0) throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  if (rank == 0) {
    become_rank(watcher, printed.write);
    for (int descriptor : {ready.read, printed.read, printed.write}) close(descriptor);
    return ready.write;
  }
  for (int descriptor : {ready.write, printed.write}) close(descriptor);
  try {
    Watcher(rank, ready.read, printed.read, status).watch(address, token);
  } catch (const std::exception& error) {
    const std::string why = fmt::format("a watcher: {}\n", error.what());
    if (write(STDERR_FILENO, why.data(), why.size()) < 0) _exit(2);
    _exit(1);
  }
}

}  // namespace shardproof
