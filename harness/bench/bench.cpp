// bench [seconds [rates|ranks|worlds|overlap|plugins]...]: how fast cases are judged, where the
// time goes, what ranks, processes and plugins cost, and how much of a ring's transfers hides.
// Prints a table for each (default: all); every figure of one table comes from the same run.
// `seconds` (default 10) is spent on each line of the first table.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <thread>

#include "harness/bench/overlap.h"
#include "harness/bench/plugins.h"
#include "harness/bench/timed.h"
#include "harness/check/generate.h"
#include "harness/model/require.h"
#include "harness/worlds/worlds.h"

namespace shardproof {
namespace {

struct Measured {
  double cases = 0;
  double failing = 0;
  double seconds = 0;
  TimeSpent spent;
};

const char* const kMedium[] = {
    "attention batch=1 q=1024 kv=1024 heads=8 dim=64 mask=causal dtype=bf16 data=normal seed=1 | "
    "ring_attention world=sim device=cpu mesh=cp:4 layout=zigzag",
    "attention_layer batch=1 q=1024 features=128 heads=8 dim=64 mask=causal dtype=f32 "
    "data=normal seed=1 | head_parallel_attention world=sim device=cpu mesh=tp:4",
    "mlp tokens=1024 features=128 hidden=512 outputs=128 activation=silu gated=yes dtype=bf16 "
    "data=normal seed=1 | column_row_mlp world=sim device=cpu mesh=tp:4",
};

std::string ring_case(int ranks) {
  return fmt::format(
      "attention batch=1 q=1024 kv=1024 heads=1 dim=16 mask=causal dtype=f32 data=normal seed=1 | "
      "ring_attention world=sim device=cpu mesh=cp:{} layout=zigzag",
      ranks);
}

constexpr RunOptions kAsCampaignsDo{.keep_trace = false};

// Judges cases number 0, 1, ... for `seconds`; all of one process.
Measured judge_for(double seconds, const Tables& tables, const std::function<Case(int)>& draw) {
  Judge judge(tables);
  Measured result;
  judge.judge(draw(0), {});  // warms up memory
  const TimeSpent before = time_spent();
  const double start = now();
  for (int i = 0; result.seconds < seconds; ++i) {
    result.failing += is_failure(judge.judge(draw(i), {}, kAsCampaignsDo).overall) ? 1 : 0;
    result.cases += 1;
    result.seconds = now() - start;
  }
  result.spent = time_spent() - before;
  return result;
}

// Runs `work` in `jobs` processes at once and adds up what they measured.
Measured in_processes(int jobs, const std::function<Measured()>& work) {
  std::vector<int> pipes;
  for (int job = 0; job < jobs; ++job) {
    int ends[2];
    require(pipe(ends) == 0, "a pipe can be made");
    if (fork() == 0) {
      try {
        const Measured measured = work();
        _exit(write(ends[1], &measured, sizeof measured) == sizeof measured ? 0 : 1);
      } catch (const std::exception& error) {
        fmt::print(stderr, "bench: {}\n", error.what());
        _exit(1);
      }
    }
    close(ends[1]);
    pipes.push_back(ends[0]);
  }
  Measured total;
  for (int from : pipes) {
    Measured measured;
    if (read(from, &measured, sizeof measured) != sizeof measured) throw Error("a process failed");
    close(from);
    wait(nullptr);
    total.cases += measured.cases;
    total.failing += measured.failing;
    total.seconds += measured.seconds;
    total.spent = total.spent + measured.spent;
  }
  return total;
}

void print_rate(const std::string& what, const Measured& measured, int jobs) {
  const auto share = [&](double seconds) { return 100 * seconds / measured.seconds; };
  const TimeSpent& spent = measured.spent;
  fmt::print("{:<44} {:>9.1f} {:>8.1f} {:>9.1f} {:>7.1f} {:>8.1f}\n", what,
             measured.cases / measured.seconds * jobs, share(spent.arithmetic),
             share(spent.reference), share(spent.world - spent.arithmetic),
             share(measured.seconds - spent.world - spent.reference));
  if (measured.failing > 0)
    fmt::print("  {} cases failed: see shardproof fuzz\n", measured.failing);
  std::fflush(stdout);
}

void print_rates(double seconds, int jobs, const Tables& tables) {
  fmt::print("Cases judged by all properties, {} processes; shares of the time in percent\n", jobs);
  fmt::print("{:<44} {:>9} {:>8} {:>9} {:>7} {:>8}\n", "", "cases/s", "subject", "reference",
             "world", "judging");
  const Generator generator(make_domain({}, tables), 1);
  const auto mixed = [&](int i) { return generator.draw(static_cast<std::uint64_t>(i)); };
  print_rate("small, mixed", in_processes(jobs, [&] { return judge_for(seconds, tables, mixed); }),
             jobs);
  for (const char* text : kMedium) {
    const Case value = parse_case(text, tables.vocabulary());
    const auto same = [&](int) { return value; };
    print_rate(fmt::format("medium, {} {}", value.placement.subject, value.placement.mesh.text()),
               in_processes(jobs, [&] { return judge_for(seconds, tables, same); }), jobs);
  }
}

void print_ranks(const Tables& tables) {
  fmt::print("\nRing attention, 1024 tokens, causal, by ranks; seconds\n");
  fmt::print("{:>6} {:>10} {:>10} {:>13} {:>18}\n", "ranks", "one run", "of it sim", "us a message",
             "run and reference");
  const Property* const none[] = {tables.property("no_deadlock")};
  const Property* const oracle[] = {tables.property("matches_reference")};
  for (int ranks : {1, 4, 16, 64, 256, 1024}) {
    const Case value = parse_case(ring_case(ranks), tables.vocabulary());
    Judge judge(tables);
    judge.judge(value, none);  // warms up memory
    const TimeSpent before = time_spent();
    const double start = now();
    judge.judge(value, oracle, kAsCampaignsDo);
    const double judged = now() - start;
    const TimeSpent spent = time_spent() - before;
    // k and v go round once forward; k, v, dk and dv once backward.
    const double messages = 6.0 * ranks * (ranks - 1);
    const double sim = spent.world - spent.arithmetic;
    fmt::print("{:>6} {:>10.4f} {:>10.4f} {:>13.3f} {:>18.3f}\n", ranks, spent.world, sim,
               messages > 0 ? 1e6 * sim / messages : 0, judged);
    std::fflush(stdout);
  }
}

// The same small cases in each world that can run here, without references and verdicts.
void print_worlds(double seconds, const Tables& tables) {
  constexpr int kRanks = 4;
  Restrictions restrictions;
  restrictions.ranks = kRanks;
  const Generator generator(make_domain(restrictions, tables), 1);
  fmt::print("\nSmall cases of at most {} ranks, one process that asks\n", kRanks);
  fmt::print("{:<8} {:>9} {:>10}\n", "world", "runs/s", "us a run");
  for (const WorldEntry& entry : all_worlds()) {
    if (!entry.device.empty()) continue;
    if (const std::string why = why_not(entry, tables.devices); !why.empty()) {
      fmt::print("{:<8} not here: {}\n", entry.name, why);
      continue;
    }
    const auto world = entry.make(tables.devices);
    world->limit_ranks(kRanks);
    const auto run = [&](int i) {
      Case value = generator.draw(static_cast<std::uint64_t>(i));
      value.placement.world = entry.name;
      world->run(value, *tables.subject(value.placement.subject), {});
    };
    run(0);  // starts the ranks
    const double start = now();
    int runs = 0;
    while (now() - start < seconds) run(++runs);
    const double each = (now() - start) / runs;
    fmt::print("{:<8} {:>9.0f} {:>10.1f}\n", entry.name, 1 / each, 1e6 * each);
    std::fflush(stdout);
  }
}

}  // namespace

// `parts`: names of tables; none means all of them.
void run_bench(double seconds, const std::set<std::string>& parts) {
  const auto wanted = [&](const char* part) { return parts.empty() || parts.contains(part); };
  const int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const Tables tables = timed_tables();
  if (wanted("rates")) print_rates(seconds, jobs, tables);
  if (wanted("ranks")) print_ranks(tables);
  if (wanted("worlds")) print_worlds(seconds, tables);
  if (wanted("overlap")) print_overlap(tables);
  if (wanted("plugins")) print_plugins(std::min(seconds, 2.0), tables);
}

}  // namespace shardproof

int main(int argc, char** argv) {
  try {
    const std::set<std::string> parts(argv + std::min(argc, 2), argv + argc);
    shardproof::run_bench(argc > 1 ? std::atof(argv[1]) : 10, parts);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 2;
  }
}
