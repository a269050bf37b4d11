// World: starts the ranks of one case, runs the subject on them and says how it ended. Outcome
// holds facts; whether they are allowed is for properties to judge.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/run/subject.h"
#include "harness/run/trace.h"
#include "harness/run/virtual_time.h"

namespace shardproof {

enum class Ending {
  kCompleted,
  kDeadlocked,  // no rank could go on; the message is the wait-for graph
  kMismatched,  // ranks disagreed about a communication; the message names both
  kThrew,       // the subject threw
  kCrashed,     // its process died
  kTimedOut,
};
std::string_view name(Ending ending);

// Something seen on a rank that no subject may do.
enum class Breach {
  kGuardBand,        // wrote outside a tensor
  kUnwritten,        // left poison in an output
  kInputChanged,     // wrote to an input
  kReplicasDiffer,   // an element held by several ranks has different bits
  kLeakedRequest,    // ended with a send or receive that was never waited for
  kInFlightChanged,  // wrote to a send buffer in flight
};
std::string_view name(Breach breach);

struct Finding {
  Breach breach = Breach::kGuardBand;
  int rank = 0;
  std::string tensor;
  Index element = -1;  // global row-major position where it makes sense
  std::string detail;
};

// One output or gradient put together from the shards. Elements that no rank held are NaN.
struct Gathered {
  TensorSpec spec;
  std::vector<double> got;
};

// What one rank held of one output, for reports and goldens.
struct KeptShard {
  std::string tensor;
  int rank = 0;
  Shard shard;
  std::vector<double> values;  // row-major over the shard
};

struct RankFacts {
  Meter meter;
  Index peak_bytes = 0;
  Index peak_received_bytes = 0;
  double finished_at = 0;        // virtual seconds; real ones in a world of processes
  double exposed_seconds = 0;    // of them, spent waiting for communication
  std::vector<Traffic> traffic;  // the trace summed up, in the order of first use
};

struct Outcome {
  Ending ending = Ending::kCompleted;
  std::string message;
  std::vector<Gathered> tensors;  // outputs and gradients, in the operator's order
  std::vector<Finding> findings;
  std::vector<RankFacts> ranks;
  Trace trace;
  std::vector<KeptShard> shards;  // only when asked for

  const Gathered* find(std::string_view tensor) const;
};

struct RunOptions {
  bool keep_shards = false;
  bool keep_trace = true;  // false: Outcome::trace stays empty (thousands of ranks make millions)
  bool looks_at_signals = true;  // whether a run that changes their handlers is told of
  VirtualTime time = {};         // of the simulated world
};

class World {
 public:
  virtual ~World() = default;

  // Why it cannot run a case with so many ranks, or an empty string.
  virtual std::string unsupported(int) const { return {}; }

  // Runs nothing with more ranks than this; called before anything else. 0: as many as a case has.
  virtual void limit_ranks(int) {}

  // The least time that a run may take before the world ends it, where the world ends runs.
  virtual void limit_run(double /*seconds*/) {}

  virtual Outcome run(const Case& value, const Subject& subject, const RunOptions& options) = 0;
};

// Entries of the tables of devices and worlds.
struct DeviceEntry {
  std::string_view name;
  std::string_view summary;
  std::string (*unavailable)();       // why it cannot run here, or an empty string
  std::unique_ptr<Device> (*make)();  // one per rank

  // Why the devices of `ranks` processes of this host cannot exchange data by themselves
  // (run/carrier.h), or an empty string. Null: those of this kind never can.
  std::string (*cannot_carry)(int ranks) = nullptr;

  // Before the first device of a process that is rank `number` of this host. Null: all are alike.
  void (*choose)(int number) = nullptr;

  // Lines that tell people what was found here. May be null.
  std::vector<std::string> (*about)() = nullptr;
};

struct WorldEntry {
  std::string_view name;
  std::string_view summary;
  std::string (*unavailable)(const std::vector<DeviceEntry>& devices);  // as above
  std::unique_ptr<World> (*make)(std::vector<DeviceEntry> devices);
  std::string_view device = {};  // the only one that it takes; empty: any
};

// Why it cannot run where there are these devices, or an empty string.
inline std::string why_not(const DeviceEntry& entry, const std::vector<DeviceEntry>&) {
  return entry.unavailable();
}
inline std::string why_not(const WorldEntry& entry, const std::vector<DeviceEntry>& devices) {
  return entry.unavailable(devices);
}

}  // namespace shardproof
