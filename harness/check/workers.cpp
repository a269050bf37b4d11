#include "harness/check/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "harness/check/worker_process.h"
#include "harness/run/pack.h"

namespace shardproof {
namespace {

constexpr std::size_t kNoiseKept = 4096;  // bytes of what a worker prints that are remembered
constexpr int kIdleDeaths = 3;            // in a row, until the next case takes the blame

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot make a pipe for a worker: {}; fewer --jobs may help",
                            std::strerror(errno)));
  }
  return {ends[0], ends[1]};
}

void make_nonblocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void close_once(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

void read_available(int descriptor, std::string& target) {
  std::array<char, 1 << 16> chunk;
  for (;;) {
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    target.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

WorkerSlot* make_slot() {
  void* memory =
      mmap(nullptr, sizeof(WorkerSlot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("cannot share memory with a worker");
  return new (memory) WorkerSlot;
}

// Processor time that `pid` has used; 0 when it is gone.
std::int64_t processor_ns(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// On a busy machine a worker may get little of a processor: time that it could not use counts a
// quarter.
bool overdue(const WorkerSlot& slot, pid_t pid) {
  const std::int64_t started = slot.started_ns;
  if (started == 0) return false;
  const std::int64_t wall = now_ns() - started;
  const std::int64_t limit = slot.limit_ns;
  if (wall <= limit) return false;
  const std::int64_t used = processor_ns(pid) - slot.started_cpu_ns;
  return used > limit / 2 || wall > 4 * limit;
}

std::string last_words(const std::string& noise) {
  const auto end = noise.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  return "; it printed: " + noise.substr(0, end + 1);
}

CaseResult result_of_death(int status, bool killed_as_overdue, double seconds,
                           const Whereabouts& where, const std::string& noise) {
  std::string place = where.text();
  if (!place.empty()) place = "; in " + place;
  place += last_words(noise);
  if (killed_as_overdue) {
    return lost(VerdictKind::kTimedOut, "timed out",
                fmt::format("still running after {:.1f} s{}", seconds, place));
  }
  if (WIFEXITED(status)) {
    const std::string symptom = fmt::format("exit code {}", WEXITSTATUS(status));
    return lost(VerdictKind::kCrashed, symptom,
                fmt::format("the process ended with {}{}", symptom, place));
  }
  const int signal = WTERMSIG(status);
  std::string symptom = fmt::format("signal {} ({})", signal, strsignal(signal));
  if (signal == SIGKILL) symptom += ", perhaps out of memory";
  return lost(VerdictKind::kCrashed, symptom,
              fmt::format("the process was ended by {}{}", symptom, place));
}

}  // namespace

struct Workers::Process {
  pid_t pid = -1;
  int requests = -1;
  int results = -1;
  int noise = -1;
  WorkerSlot* slot = make_slot();
  std::deque<Item> queue;
  std::string buffer;
  std::string printed;
  bool killed_as_overdue = false;
  int idle_deaths = 0;

  ~Process() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (int* descriptor : {&requests, &results, &noise}) close_once(*descriptor);
    munmap(slot, sizeof(WorkerSlot));
  }

  void listen() {
    read_available(noise, printed);
    if (printed.size() > kNoiseKept) printed.erase(0, printed.size() - kNoiseKept);
  }
};

Workers::Workers(Evaluator& evaluator, int count, WorkerLimits limits)
    : evaluator_(evaluator), limits_(limits) {
  require(count > 0, "there is at least one worker");
  std::signal(SIGPIPE, SIG_IGN);  // writing to a worker that has just died must not end the driver
  std::signal(SIGXFSZ, SIG_IGN);  // nor a file at its limit, which is an error like any other
  for (int i = 0; i < count; ++i) {
    processes_.push_back(std::make_unique<Process>());
    start(*processes_.back());
  }
}

Workers::~Workers() = default;

void Workers::start(Process& process) {
  const Pipe requests = make_pipe();
  const Pipe results = make_pipe();
  const Pipe noise = make_pipe();
  make_nonblocking(noise.write);  // a worker that prints a lot must not wait for the driver
  process.slot->started_ns = 0;
  process.killed_as_overdue = false;
  process.buffer.clear();
  process.printed.clear();
  std::fflush(nullptr);  // or a worker that calls exit() prints it again
  const pid_t parent = getpid();
  process.pid = fork();
  if (process.pid < 0) {
    throw Error(fmt::format("cannot start a worker process: {}", std::strerror(errno)));
  }
  if (process.pid == 0) {
    run_worker(evaluator_, limits_, *process.slot, parent, requests.read, results.write,
               noise.write);
  }
  for (int descriptor : {requests.read, results.write, noise.write}) close(descriptor);
  process.requests = requests.write;
  process.results = results.read;
  process.noise = noise.read;
  make_nonblocking(process.results);
  make_nonblocking(process.noise);
  if (!process.queue.empty()) {
    write_message(process.requests, packed({process.queue.begin(), process.queue.end()}));
  }
}

std::size_t Workers::shortest_queue() const {
  const auto shortest = std::min_element(
      processes_.begin(), processes_.end(),
      [](const auto& a, const auto& b) { return a->queue.size() < b->queue.size(); });
  return (*shortest)->queue.size();
}

std::size_t Workers::outstanding() const {
  std::size_t count = 0;
  for (const auto& process : processes_) count += process->queue.size();
  return count;
}

void Workers::give(std::vector<Item> items) {
  const auto target = std::min_element(
      processes_.begin(), processes_.end(),
      [](const auto& a, const auto& b) { return a->queue.size() < b->queue.size(); });
  write_message((*target)->requests, packed(items));
  for (Item& item : items) (*target)->queue.push_back(std::move(item));
}

// Moves what the worker has sent from its pipe to `finished`.
void Workers::collect(Process& process, std::vector<Finished>& finished) {
  process.listen();
  read_available(process.results, process.buffer);
  std::string message;
  while (!process.queue.empty() && take_message(process.buffer, message)) {
    Unpack unpack(message);
    Finished done;
    try {
      done.seconds = unpack.real();
      done.result = CaseResult::unpacked(unpack.text());
    } catch (const Error& error) {
      done.result = lost(VerdictKind::kCrashed, "damaged memory", error.what());
      kill(process.pid, SIGKILL);
    }
    done.item = std::move(process.queue.front());
    process.queue.pop_front();
    process.idle_deaths = 0;
    finished.push_back(std::move(done));
  }
}

void Workers::replace_dead(Process& process, std::vector<Finished>& finished) {
  int status = 0;
  if (waitpid(process.pid, &status, WNOHANG) != process.pid) return;
  process.pid = -1;
  collect(process, finished);
  const std::int64_t started = process.slot->started_ns;
  if (started == 0) ++process.idle_deaths;
  if (!process.queue.empty() && (started != 0 || process.idle_deaths >= kIdleDeaths)) {
    const double seconds = started == 0 ? 0 : 1e-9 * static_cast<double>(now_ns() - started);
    Finished done{std::move(process.queue.front()),
                  result_of_death(status, process.killed_as_overdue, seconds, process.slot->where,
                                  process.printed),
                  seconds};
    process.queue.pop_front();
    process.idle_deaths = 0;
    finished.push_back(std::move(done));
  }
  for (int* descriptor : {&process.requests, &process.results, &process.noise}) {
    close_once(*descriptor);
  }
  start(process);
}

std::vector<Finished> Workers::wait(double seconds, int interrupt) {
  constexpr double kLook = 0.1;  // how often to look for workers that hang
  std::vector<Finished> finished;
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(1e9 * seconds);
  for (;;) {
    for (const auto& process : processes_) {
      if (overdue(*process->slot, process->pid)) {
        process->killed_as_overdue = true;
        kill(process->pid, SIGKILL);
      }
      collect(*process, finished);
      replace_dead(*process, finished);
    }
    const double rest = 1e-9 * static_cast<double>(deadline - now_ns());
    if (!finished.empty() || rest <= 0) return finished;
    std::vector<pollfd> descriptors;
    for (const auto& process : processes_) descriptors.push_back({process->results, POLLIN, 0});
    descriptors.push_back({interrupt, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), static_cast<int>(1e3 * std::min(rest, kLook)) + 1);
    if (descriptors.back().revents != 0) return finished;
  }
}

std::uint64_t fair_memory(int count) {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30;
  return std::max(kLeast, bytes / static_cast<std::uint64_t>(count));
}

}  // namespace shardproof
