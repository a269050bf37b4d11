// The subjects of the MPI world's tests: a few that are right in every way that a world offers, and
// many that fail in one way each, on rank 1 after an all_reduce.
#include <fcntl.h>
#include <unistd.h>

#include <cfenv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "harness/worlds/mpi/mpi_fixture_test.h"

namespace shardproof {
namespace {

// y = x of all ranks before this one along the ring, and then its own, added up.
void ring_forward(Rank& rank) {
  Communicator& ring = rank.along("cp");
  copy_forward(rank);
  const Index most = rank.problem().tokens * rank.problem().features;
  Tensor here = rank.make(rank.problem().dtype, {most});
  Tensor next = rank.make(rank.problem().dtype, {most});
  const View x = rank.get("x");
  rank.device().fill(here, ring.rank());
  if (x.elements() > 0) {
    rank.device().copy(x.reshaped({x.elements()}), here.view().slice(0, 0, x.elements()));
  }
  for (int step = 1; step < ring.size(); ++step) {
    auto exchange = ring.start_exchange(here, (ring.rank() + 1) % ring.size(), next,
                                        (ring.rank() + ring.size() - 1) % ring.size(), step);
    ring.wait(exchange);
    std::swap(here, next);
    const View y = rank.get("y").reshaped({x.elements()});
    rank.device().add(here.view().slice(0, 0, x.elements()), y);
  }
}

// Every collective once, along both axes, with parts of unequal length.
void collectives_forward(Rank& rank) {
  copy_forward(rank);
  const DType dtype = rank.problem().dtype;
  const View y = rank.get("y");
  for (const char* axis : {"cp", "tp"}) {
    Communicator& group = rank.along(axis);
    std::vector<Tensor> owners;
    std::vector<View> parts;
    std::vector<View> others;
    for (int i = 0; i < group.size(); ++i) {
      owners.push_back(rank.make(dtype, {i + 1}));
      parts.push_back(owners.back());
      rank.device().fill(parts.back(), 0.1 * (group.rank() + 1) + i);
    }
    for (int i = 0; i < group.size(); ++i) {
      owners.push_back(rank.make(dtype, {group.rank() + 1}));
      others.push_back(owners.back());
    }
    Tensor mine = rank.make(dtype, {group.rank() + 1});
    group.reduce_scatter(parts, mine);
    group.all_to_all(parts, others);
    group.all_gather(mine, parts);
    Tensor sum = rank.make(dtype, {3});
    rank.device().fill(sum, others.back().at(0) / 3 + parts.back().at(0));
    group.all_reduce(sum);
    group.broadcast(sum, group.size() - 1);
    group.barrier();
    Tensor largest = rank.make(dtype, {1});
    rank.device().fill(largest, group.rank());
    group.all_reduce_maximum(largest);
    if (y.elements() > 0) {
      rank.device().add_row(largest, y.slice(1, 0, 1));
      rank.device().add_row(sum.view().slice(0, 0, 1), y.slice(1, 0, 1));
    }
  }
}

void broadcast_of_unequal(Rank& rank) {
  copy_forward(rank);
  Tensor data = rank.make(DType::kF32, {rank.index() == 1 ? 3 : 2});
  rank.device().fill(data, 1);
  rank.along("cp").broadcast(data, 0);
}

int runs_so_far = 0;

// y: how many runs this process has had.
void counting_forward(Rank& rank) { rank.device().fill(rank.get("y"), ++runs_so_far); }

void early_reader_forward(Rank& rank) {
  copy_forward(rank);
  Communicator& ring = rank.along("cp");
  Tensor one = rank.make(DType::kF32, {1});
  Tensor other = rank.make(DType::kF32, {1});
  rank.device().fill(one, 1);
  auto exchange = ring.start_exchange(one, (ring.rank() + 1) % ring.size(), other,
                                      (ring.rank() + ring.size() - 1) % ring.size(), 0);
  ring.barrier();  // by now the message has come
  rank.device().fill(rank.get("y"), Memory::first_unwritten(other) == 0 ? 1 : 2);
  ring.wait(exchange);
}

void changed_in_flight_forward(Rank& rank) {
  copy_forward(rank);
  Communicator& ring = rank.along("cp");
  Tensor one = rank.make(DType::kF32, {4});
  Tensor other = rank.make(DType::kF32, {4});
  rank.device().fill(one, 1);
  auto exchange = ring.start_exchange(one, (ring.rank() + 1) % ring.size(), other,
                                      (ring.rank() + ring.size() - 1) % ring.size(), 0);
  if (rank.index() == 1) one.view().set({2}, 5);
  ring.wait(exchange);
}

// Rank 1 sends what nobody receives.
void lost_message_forward(Rank& rank) {
  copy_forward(rank);
  Tensor one = rank.make(DType::kF32, {1});
  rank.device().fill(one, 1);
  if (rank.index() == 1) rank.along("cp").send(one, 0, 9);
}

void receives_before_it_sends(Rank& rank) {
  copy_forward(rank);
  Communicator& ring = rank.along("cp");
  Tensor one = rank.make(DType::kF32, {1});
  rank.device().fill(one, 1);
  ring.receive(one, (ring.rank() + 1) % ring.size(), 3);
  ring.send(one, (ring.rank() + ring.size() - 1) % ring.size(), 3);
}

void spin() {
  for (volatile bool for_ever = true; for_ever;) {
  }
}

void corrupt_heap() {
  volatile char* memory = new char[64];
  for (std::size_t i = 0; i < std::size_t{1} << 28; ++i) memory[i] = 0x5a;
}

// Once for each name that the test hands down.
void kill_launcher_once() {
  const char* marker = std::getenv("SHARDPROOF_TEST_MARKER");
  const int file = open(marker, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return;
  close(file);
  int watcher_parent = 0;
  const std::string path = "/proc/" + std::to_string(getppid()) + "/status";
  FILE* status = std::fopen(path.c_str(), "r");
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "PPid: %d", &watcher_parent) == 1) break;
  }
  std::fclose(status);
  kill(watcher_parent, SIGKILL);
  pause();
}

using Fault = void (*)();
const std::map<std::string_view, Fault>& faults() {
  static const std::map<std::string_view, Fault> all{
      {"segfaults", [] { std::raise(SIGSEGV); }},
      {"aborts", [] { std::abort(); }},
      {"exits", [] { std::exit(3); }},
      {"throws", [] { throw std::runtime_error("no such thing"); }},
      {"spins", spin},
      {"sleeps", [] { pause(); }},
      {"is_killed", [] { kill(getpid(), SIGKILL); }},
      {"is_stopped", [] { kill(getpid(), SIGSTOP); }},
      {"is_hungry",
       [] {
         std::vector<std::unique_ptr<char[]>> all_memory;  // addresses: it is not touched
         for (;;) all_memory.emplace_back(new char[std::size_t{1} << 28]);
       }},
      {"prints_and_aborts",
       [] {
         for (int i = 0; i < 100000; ++i) std::printf("noise %d\n", i);
         std::fflush(stdout);
         std::fprintf(stderr, "last words\n");
         std::abort();
       }},
      {"handles_signals",
       [] {
         std::signal(SIGSEGV, SIG_IGN);
         std::signal(SIGABRT, SIG_IGN);
         std::fesetround(FE_UPWARD);
         std::raise(SIGSEGV);
         std::_Exit(5);
       }},
      {"kills_mpirun", kill_launcher_once},
      {"rounds_up", [] { std::fesetround(FE_UPWARD); }},
      {"ignores_signals", [] { std::signal(SIGSEGV, SIG_IGN); }},
      {"leaks",
       [] {
         volatile char* leaked = new char[std::size_t{1} << 30];
         *leaked = 1;
       }},
      {"corrupts", corrupt_heap},
  };
  return all;
}

void faulty_forward(Rank& rank) {
  copy_forward(rank);
  Tensor one = rank.make(DType::kF32, {1});
  rank.device().fill(one, 1);
  rank.along("cp").all_reduce(one);
  const bool all_fail = rank.problem().features == 1;
  if (all_fail || rank.index() == 1) faults().at(rank.running().placement.subject)();
  rank.along("cp").barrier();
}

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  const auto add = [&](std::string_view name, void (*forward)(Rank&)) {
    Subject subject = fixture_subject(forward);
    subject.name = name;
    subject.op = "fixture";
    subjects.push_back(subject);
  };
  add("copies", &copy_forward);
  add("ring", &ring_forward);
  add("collectives", &collectives_forward);
  add("counts", &counting_forward);
  add("reads_early", &early_reader_forward);
  add("changes_in_flight", &changed_in_flight_forward);
  add("loses_a_message", &lost_message_forward);
  add("disagrees", &broadcast_of_unequal);
  add("deadlocks", &receives_before_it_sends);
  for (const auto& [name, fault] : faults()) add(name, &faulty_forward);
  return subjects;
}

}  // namespace

const Subject& mpi_test_subject(std::string_view name) {
  static const std::vector<Subject> subjects = make_subjects();
  for (const Subject& subject : subjects) {
    if (subject.name == name) return subject;
  }
  throw std::invalid_argument("no such subject");
}

RankTables mpi_test_tables() {
  RankTables tables;
  for (const Subject& subject : make_subjects()) {
    tables.subjects.push_back(&mpi_test_subject(subject.name));
    tables.vocabulary.subjects.push_back(subject.name);
  }
  tables.devices = all_devices();
  tables.vocabulary.operators = {&fixture_operator()};
  tables.vocabulary.worlds = {"sim", "mpi"};
  tables.vocabulary.devices = {"cpu"};
  return tables;
}

Case mpi_test_case(std::string_view subject, int ranks, Index tokens, Index features) {
  Case value = fixture_case(cp_mesh(ranks), 0, tokens, features);
  value.placement.subject = subject;
  value.placement.world = "mpi";
  return value;
}

}  // namespace shardproof
