// Workers: processes that evaluate cases, so that code under test never runs in the driver.
// Whatever a case does to its worker (crash, exit, exhaust memory, spin) becomes that case's
// result, and a new worker takes over the rest. No worker outlives the driver.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/check/case_result.h"

namespace shardproof {

// One case to evaluate: by its text or, where that is empty, by its number in the campaign.
struct Item {
  std::uint64_t number = 0;
  std::string text{};
  std::string property{};     // judge only this one; empty: all that the campaign judges
  bool all_numbers = false;   // T1 and rms of every tensor, too
  std::string golden_path{};  // store the first failure as a golden here
};

struct WorkerLimits {
  double case_seconds = 10;        // least time that a case may take; more for large ones
  std::uint64_t memory_bytes = 0;  // of address space, on top of what the driver uses; 0: no limit
};

// What a worker does. Made in the driver, used only in workers.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Called once in every new worker, before anything else.
  virtual void start(const WorkerLimits& limits) = 0;

  // Builds the item's case without running anything. Its work in multiply-adds, roughly.
  virtual double prepare(const Item& item) = 0;

  // Runs and judges the prepared case.
  virtual CaseResult evaluate(const Item& item) = 0;
};

struct Finished {
  Item item;
  CaseResult result;
  double seconds = 0;
};

class Workers {
 public:
  // Starts `count` workers.
  Workers(Evaluator& evaluator, int count, WorkerLimits limits);
  ~Workers();  // kills them
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // How many items the least busy worker still has to do.
  std::size_t shortest_queue() const;

  // Hands items to the least busy worker, which does them in order.
  void give(std::vector<Item> items);

  // Items given and not yet returned.
  std::size_t outstanding() const;

  // Waits for results, at most `seconds`; also returns when `interrupt`, a file descriptor, becomes
  // readable (-1: none).
  std::vector<Finished> wait(double seconds, int interrupt = -1);

 private:
  struct Process;
  void start(Process& process);
  void collect(Process& process, std::vector<Finished>& finished);
  void replace_dead(Process& process, std::vector<Finished>& finished);

  Evaluator& evaluator_;
  WorkerLimits limits_;
  std::vector<std::unique_ptr<Process>> processes_;
};

// Address space for each of `count` workers on this machine: an equal share of the memory.
std::uint64_t fair_memory(int count);

}  // namespace shardproof
