// What a subject may do to the process that it runs in, as a fiber among others: whatever it is, it
// is a verdict that names the rank and its last communication, and the next case runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cfenv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "harness/check/evaluator.h"
#include "harness/run/process_memory.h"
#include "harness/worlds/sim_fixture.h"
#include "properties/properties.h"

namespace shardproof {
namespace {

using Fault = void (*)(Rank&);

void spin(Rank&) {
  for (volatile bool for_ever = true; for_ever;) {
  }
}

void deadlock(Rank& rank) {
  Tensor one = rank.make(DType::kF32, {1});
  rank.along("cp").receive(one, rank.index() == 1 ? 0 : 1, 3);
}

// Through the guard band and far beyond.
void corrupt(Rank& rank) {
  Tensor one = rank.make(DType::kF32, {1});
  std::memset(one.view().data, 0x5a, std::size_t{1} << 22);
}

void leak(Rank&) {
  volatile char* leaked = new char[std::size_t{1} << 30];
  *leaked = 1;
}

const std::map<std::string_view, Fault>& faults() {
  static const std::map<std::string_view, Fault> all{
      {"segfaults", [](Rank&) { std::raise(SIGSEGV); }},
      {"aborts", [](Rank&) { std::abort(); }},
      {"exits", [](Rank&) { std::exit(3); }},
      {"throws", [](Rank&) { throw std::runtime_error("no such thing"); }},
      {"wants_all_memory",
       [](Rank& rank) {
         for (;;) leak(rank);
       }},
      {"spins", spin},
      {"sleeps", [](Rank&) { pause(); }},
      {"deadlocks", deadlock},
      {"corrupts", corrupt},
      {"leaks", leak},
      {"is_killed", [](Rank&) { kill(getpid(), SIGKILL); }},
      {"is_stopped", [](Rank&) { kill(getpid(), SIGSTOP); }},
      {"prints",
       [](Rank&) {
         for (int i = 0; i < 100000; ++i) std::printf("noise %d\n", i);
         std::fflush(stdout);
         std::fprintf(stderr, "last words\n");
         std::abort();
       }},
      {"rounds_up", [](Rank&) { std::fesetround(FE_UPWARD); }},
      {"handles_signals", [](Rank&) { std::signal(SIGSEGV, SIG_IGN); }},
      {"does_nothing", [](Rank&) {}},
  };
  return all;
}

// On rank 1 or, where there is one feature, on all, after an all_reduce.
void faulty_forward(Rank& rank) {
  copy_forward(rank);
  Tensor one = rank.make(DType::kF32, {1});
  rank.device().fill(one, 1);
  rank.along("cp").all_reduce(one);
  const bool all_fail = rank.problem().features == 1;
  if (all_fail || rank.index() == 1) faults().at(rank.running().placement.subject)(rank);
  rank.along("cp").barrier();
}

Tables fault_tables() {
  static std::vector<Subject> subjects;
  subjects.clear();
  subjects.reserve(faults().size());
  Tables tables;
  tables.operators = {&fixture_operator()};
  tables.worlds = {all_worlds().at(0)};
  tables.devices = all_devices();
  for (const Property* each : all_properties()) {
    if (each->name == "nothing_out_of_bounds") tables.properties = {each};
  }
  for (const auto& [name, fault] : faults()) {
    Subject& subject = subjects.emplace_back(fixture_subject(&faulty_forward));
    subject.name = name;
    subject.op = "fixture";
    subject.axes = {"cp"};
    subject.uses_layout = true;
    subject.contract = [](const Case&) { return Contract{}; };
    subject.unsupported = [](const Case&) { return std::string(); };
    tables.subjects.push_back(&subject);
  }
  return tables;
}

// The case itself and, behind it in the same worker, one that does nothing wrong.
std::pair<CaseResult, CaseResult> fates(std::string_view subject, Index features) {
  const Tables tables = fault_tables();
  CaseEvaluator evaluator(tables, tables.properties, nullptr, nullptr);
  Workers workers(evaluator, 1, {.case_seconds = 0.2, .memory_bytes = std::uint64_t{5} << 30});
  std::map<std::uint64_t, CaseResult> results;
  std::uint64_t number = 0;
  for (std::string_view each : {subject, std::string_view("does_nothing")}) {
    Case value = fixture_case(cp_mesh(3), 0, 7, features);
    value.placement.subject = each;
    workers.give({{.number = number++, .text = to_text(value)}});
  }
  for (int i = 0; i < 300 && results.size() < 2; ++i) {
    for (Finished& done : workers.wait(0.1)) results[done.item.number] = std::move(done.result);
  }
  return {results[0], results[1]};
}

class SimFault : public testing::TestWithParam<const char*> {};

TEST_P(SimFault, IsAVerdictThatNamesRankAndEventAndTheNextCaseRuns) {
  const std::string name = GetParam();
  const bool is_memory = name == "leaks" || name == "wants_all_memory";
  if (is_memory && data_bytes() == 0) GTEST_SKIP() << "a sanitizer's memory says nothing";
  for (Index features : {3, 1}) {
    const auto [result, next] = fates(name, features);
    ASSERT_EQ(result.trouble, "");
    EXPECT_TRUE(is_failure(result.overall)) << shardproof::name(result.overall);
    ASSERT_NE(result.first_failure(), nullptr);
    const std::string& message = result.first_failure()->verdict.message;
    const std::string event = name == "deadlocks" ? "rank 1 waits " : " (cp axis, forward)";
    const bool names_it =
        message.find("rank ") != std::string::npos && message.find(event) != std::string::npos;
    EXPECT_TRUE(names_it || name == "leaks" || name == "corrupts") << message;
    EXPECT_EQ(next.overall, VerdictKind::kHolds) << shardproof::name(next.overall);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimFault,
                         testing::Values("segfaults", "aborts", "exits", "throws",
                                         "wants_all_memory", "spins", "sleeps", "deadlocks",
                                         "corrupts", "leaks", "is_killed", "is_stopped", "prints",
                                         "rounds_up", "handles_signals"),
                         [](const auto& fault) { return std::string(fault.param); });

TEST(SimFaults, NothingIsNoFault) {
  const auto [result, next] = fates("does_nothing", 1);
  EXPECT_EQ(result.overall, VerdictKind::kHolds);
  EXPECT_EQ(next.overall, VerdictKind::kHolds);
}

}  // namespace
}  // namespace shardproof
