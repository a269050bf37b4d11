#include "harness/check/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <new>

#include "harness/run/pack.h"
#include "harness/run/process_memory.h"
#include "harness/run/time_limit.h"

namespace shardproof {
namespace {

std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void close_all_but(std::array<int, 2> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = STDERR_FILENO + 1;
  for (int descriptor : kept) {
    const auto keep = static_cast<unsigned>(descriptor);
    if (keep > first) close_range(first, keep - 1, 0);
    first = keep + 1;
  }
  close_range(first, ~0U, 0);
}

void limit_memory(std::uint64_t bytes) {
  const std::uint64_t used = data_bytes();
  if (bytes == 0 || used == 0) return;
  const rlimit limit{used + bytes, used + bytes};
  // What it fills; addresses alone, which far tensors take many of, are no memory.
  setrlimit(RLIMIT_DATA, &limit);
}

// Nothing that a subject does to its process may reach the driver or outlive it.
void confine(const WorkerLimits& limits, int parent, int requests, int results, int noise) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it died before the line above
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(noise, STDOUT_FILENO);
  dup2(noise, STDERR_FILENO);
  close_all_but({requests, results});
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  limit_memory(limits.memory_bytes);
  // When the machine runs out of memory the worker should go, not the driver.
  std::ofstream("/proc/self/oom_score_adj") << 500;
}

std::vector<Item> unpacked_items(const std::string& bytes) {
  Unpack unpack(bytes);
  std::vector<Item> items;
  while (!unpack.empty()) {
    Item item;
    item.number = static_cast<std::uint64_t>(unpack.whole());
    item.text = unpack.text();
    item.property = unpack.text();
    item.all_numbers = unpack.whole() != 0;
    item.golden_path = unpack.text();
    items.push_back(std::move(item));
  }
  return items;
}

CaseResult trouble(const std::exception& error) {
  CaseResult result;
  result.trouble = error.what();
  return result;
}

constexpr std::uint64_t kMuchMemory = std::uint64_t{256} << 20;

// A case after which much more memory is in use than before runs once more: what is kept for later
// cases does not grow again, a leak does.
bool leaks(Evaluator& evaluator, const Item& item, WorkerSlot& slot, std::uint64_t before) {
  const std::uint64_t after = data_bytes();
  if (after < before + kMuchMemory) return false;
  slot.started_ns = now_ns();
  evaluator.evaluate(item);
  return data_bytes() >= after + kMuchMemory;
}

// `spent` is set when the worker should not be used again.
CaseResult guarded(Evaluator& evaluator, const Item& item, WorkerSlot& slot, TimeLimit& limit,
                   bool& spent) {
  try {
    const double work = evaluator.prepare(item);
    const std::int64_t start = now_ns();
    slot.limit_ns = static_cast<std::int64_t>(1e9 * limit.seconds(work));
    slot.started_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    slot.where.rank = -1;
    slot.started_ns = start;
    const std::uint64_t before = data_bytes();
    CaseResult result = evaluator.evaluate(item);
    if (leaks(evaluator, item, slot, before)) {
      result =
          lost(VerdictKind::kCrashed, "memory leaked",
               fmt::format("each time it runs {} MiB or more stay allocated", kMuchMemory >> 20));
    }
    spent = result.overall == VerdictKind::kCrashed;  // who knows what it left behind
    slot.started_ns = 0;
    limit.learn(work, 1e-9 * static_cast<double>(now_ns() - start));
    return result;
  } catch (const std::bad_alloc&) {
    spent = true;
    return lost(VerdictKind::kCrashed, "memory exhausted", "the case ran out of memory");
  } catch (const std::exception& error) {
    return trouble(error);
  }
}

bool read_message(int descriptor, std::string& buffer, std::string& message) {
  while (!take_message(buffer, message)) {
    std::array<char, 1 << 16> chunk;
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    buffer.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

std::string packed(const std::vector<Item>& items) {
  Pack pack;
  for (const Item& item : items) {
    pack.whole(static_cast<std::int64_t>(item.number)).text(item.text).text(item.property);
    pack.whole(item.all_numbers).text(item.golden_path);
  }
  return pack.bytes();
}

void write_message(int descriptor, const std::string& bytes) {
  std::string message = Pack().whole(static_cast<std::int64_t>(bytes.size())).bytes();
  message += bytes;
  for (std::string_view rest = message; !rest.empty();) {
    const ssize_t count = write(descriptor, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // the reader is gone, which it notices itself
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

bool take_message(std::string& buffer, std::string& message) {
  constexpr std::size_t kHeader = sizeof(std::int64_t);
  if (buffer.size() < kHeader) return false;
  const auto size = static_cast<std::size_t>(Unpack(buffer).whole());
  if (buffer.size() - kHeader < size) return false;
  message = buffer.substr(kHeader, size);
  buffer.erase(0, kHeader + size);
  return true;
}

void run_worker(Evaluator& evaluator, const WorkerLimits& limits, WorkerSlot& slot, int parent,
                int requests, int results, int noise) {
  confine(limits, parent, requests, results, noise);
  keep_whereabouts(&slot.where);
  std::string failed_start;
  try {
    evaluator.start(limits);
  } catch (const std::exception& error) {
    failed_start = error.what();
  }
  TimeLimit limit(limits.case_seconds);
  std::string buffer;
  std::string message;
  bool spent = false;
  while (!spent && read_message(requests, buffer, message)) {
    for (const Item& item : unpacked_items(message)) {
      const std::int64_t start = now_ns();
      const CaseResult result = failed_start.empty() ? guarded(evaluator, item, slot, limit, spent)
                                                     : trouble(Error(failed_start));
      slot.started_ns = 0;
      const double seconds = 1e-9 * static_cast<double>(now_ns() - start);
      write_message(results, Pack().real(seconds).text(result.packed()).bytes());
      if (spent) break;
    }
  }
  _exit(0);
}

}  // namespace shardproof
