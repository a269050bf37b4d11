// The worker's side of Workers: the slot it shares with the driver and its main loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/check/workers.h"
#include "harness/run/whereabouts.h"

namespace shardproof {

// Shared memory, one a worker: which case it is in, so that the driver knows what killed it.
struct WorkerSlot {
  std::atomic<std::int64_t> started_ns{0};      // monotonic clock; 0: between cases
  std::atomic<std::int64_t> started_cpu_ns{0};  // processor time of the worker at that moment
  std::atomic<std::int64_t> limit_ns{0};        // how long the case may take
  Whereabouts where;                            // in the case
};

std::int64_t now_ns();

std::string packed(const std::vector<Item>& items);

// A message on a pipe is its length (8 bytes) and its bytes.
void write_message(int descriptor, const std::string& bytes);

// Removes the first whole message from `buffer`; false when there is none yet.
bool take_message(std::string& buffer, std::string& message);

// The life of a worker process; never returns. `parent` is the driver's process id.
[[noreturn]] void run_worker(Evaluator& evaluator, const WorkerLimits& limits, WorkerSlot& slot,
                             int parent, int requests, int results, int noise);

}  // namespace shardproof
