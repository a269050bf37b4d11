#include "harness/worlds/mpi_fleet.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr double kStartSeconds = 120;  // a large world on a busy machine takes its time
constexpr int kLookMs = 50;
constexpr int kGreetingMs = 5000;
constexpr double kAskFrom = 0.15;  // most runs have ended by then
constexpr double kAskEvery = 0.1;
// What arrives soon after the first sign of trouble belongs to it: the death of the launcher takes
// all ranks with it, and several ranks may fail at once.
constexpr double kLostGrace = 0.5;
constexpr double kFailedGrace = 0.05;

double seconds_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Not a seed of anything that is computed.
std::string make_token() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) throw Error("no random numbers");
  return fmt::format("{:016x}", number);
}

std::string trimmed(const std::string& words) {
  const auto end = words.find_last_not_of(" \n");
  return end == std::string::npos ? "" : words.substr(0, end + 1);
}

std::string how_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
}

std::string describe(int rank, const Report& end) {
  std::string text =
      fmt::format("rank {} {} after {}", rank, how_ended(end.status), end.activity.last_event());
  if (const std::string words = trimmed(end.words); !words.empty()) {
    text += "; it printed: " + words;
  }
  return text;
}

}  // namespace

MpiFleet::MpiFleet(MpiCommand command) : members_(static_cast<std::size_t>(command.ranks)) {
  Listener listener(command.address);
  const std::string token = make_token();
  command.program.push_back(listener.address());
  command.program.push_back(token);
  launch_.emplace(command);
  gather(listener, token);
}

// Each rank and its watcher connect.
void MpiFleet::gather(Listener& listener, const std::string& token) {
  const double deadline = seconds_now() + kStartSeconds;
  const auto is_here = [](const Member& member) {
    return member.rank.is_open() && member.watcher.is_open();
  };
  while (!std::all_of(members_.begin(), members_.end(), is_here)) {
    if (const auto status = launch_->status()) {
      throw Error(fmt::format("{} ranks could not be started: mpirun {}: {}", members_.size(),
                              how_ended(*status), trimmed(launch_->words())));
    }
    if (seconds_now() > deadline) {
      throw Error(fmt::format("{} ranks could not be started in {} s: {}", members_.size(),
                              kStartSeconds, trimmed(launch_->words())));
    }
    pollfd events[]{{listener.descriptor(), POLLIN, 0}, {launch_->descriptor(), POLLIN, 0}};
    poll(events, 2, kLookMs);
    if (events[0].revents != 0) greet(listener.accept(), token);
  }
}

// Anybody may connect: who says nothing or does not know the token is not heard.
void MpiFleet::greet(Wire wire, const std::string& token) {
  std::string message;
  pollfd event{wire.descriptor(), POLLIN, 0};
  if (poll(&event, 1, kGreetingMs) != 1 || !wire.receive(message)) return;
  const Greeting greeting = Greeting::unpacked(message);
  if (greeting.token != token) return;
  if (greeting.ranks != ranks() || greeting.rank < 0 || greeting.rank >= ranks()) {
    throw Error(fmt::format(
        "rank {} says that it is one of {}, not of {}: is the launcher that of the MPI which the "
        "program was built with?",
        greeting.rank, greeting.ranks, ranks()));
  }
  Member& member = members_[static_cast<std::size_t>(greeting.rank)];
  (greeting.is_watcher ? member.watcher : member.rank) = std::move(wire);
}

Conclusion MpiFleet::run(const std::string& text, bool keep_trace, int ranks,
                         double limit_seconds) {
  const auto count = static_cast<std::size_t>(ranks);
  MpiWatch watch(ranks, limit_seconds);
  const double start = seconds_now();
  for (Member& member : members_) member.record.reset();
  ++run_;
  listen(0, watch, start);
  if (is_broken()) return conclude_outside();  // it died while nothing ran
  const std::string order = Order{run_, text, keep_trace, limit_seconds}.packed();
  for (std::size_t i = 0; i < count; ++i) members_[i].rank_lost = !members_[i].rank.send(order);
  double next_question = kAskFrom;
  double give_up = -1;  // when to make the best of what is known
  while (!is_complete(count)) {
    listen(count, watch, start);
    const double now = seconds_now() - start;
    if (give_up < 0 && is_broken()) give_up = now + kLostGrace;
    if (has_failed(count)) {
      give_up = give_up < 0 ? now + kFailedGrace : std::min(give_up, now + kFailedGrace);
    }
    if (give_up >= 0 && now >= give_up) break;
    if (auto stuck = watch.stuck(now); stuck && give_up < 0) {
      return {stuck->ending, std::move(stuck->message), false, {}};
    }
    if (now < next_question) continue;
    next_question = now + kAskEvery;
    ask(count);
  }
  return conclude(count);
}

// Waits for news (not at all when no rank runs) and takes in what there is.
void MpiFleet::listen(std::size_t ranks, MpiWatch& watch, double start) {
  std::vector<pollfd> events;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const bool awaits = i < ranks && !member.record && !member.rank_lost;
    events.push_back({awaits ? member.rank.descriptor() : -1, POLLIN, 0});
    events.push_back({member.watcher_lost ? -1 : member.watcher.descriptor(), POLLIN, 0});
  }
  events.push_back({launch_->status() ? -1 : launch_->descriptor(), POLLIN, 0});
  poll(events.data(), events.size(), ranks == 0 ? 0 : kLookMs);
  const double now = seconds_now() - start;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (events[2 * i].revents != 0) hear_rank(members_[i], rank, watch);
    if (events[2 * i + 1].revents != 0) hear_watcher(members_[i], rank, watch, now);
  }
}

void MpiFleet::hear_rank(Member& member, int rank, MpiWatch& watch) {
  const bool is_there = member.rank.read_available();
  std::string message;
  while (member.rank.take(message)) {
    RankRecord record;
    try {
      record = RankRecord::unpacked(message);
    } catch (const Error& error) {
      record.run = run_;
      record.ending = Ending::kCrashed;
      record.message = fmt::format("rank {}: {}", rank, error.what());
    }
    if (record.run != run_) continue;
    member.record = std::move(record);
    watch.has_finished(rank);
  }
  if (!is_there && !member.record) member.rank_lost = true;
}

void MpiFleet::hear_watcher(Member& member, int rank, MpiWatch& watch, double now) {
  const bool is_there = member.watcher.read_available();
  std::string message;
  while (member.watcher.take(message)) {
    const Report report = Report::unpacked(message);
    member.is_asked = false;
    if (report.has_ended) {
      member.end = report;
    } else {
      watch.add(rank, report, now);
    }
  }
  if (!is_there) member.watcher_lost = true;
}

void MpiFleet::ask(std::size_t ranks) {
  for (std::size_t i = 0; i < ranks; ++i) {
    Member& member = members_[i];
    if (member.record || member.is_asked || member.watcher_lost) continue;
    member.is_asked = member.watcher.send("?");
  }
}

bool MpiFleet::is_complete(std::size_t ranks) const {
  return std::all_of(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(ranks),
                     [](const Member& member) {
                       return member.record && member.record->ending == Ending::kCompleted;
                     });
}

bool MpiFleet::has_failed(std::size_t ranks) const {
  return std::any_of(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(ranks),
                     [](const Member& member) {
                       const bool failed =
                           member.record && member.record->ending != Ending::kCompleted;
                       return member.end || failed;
                     });
}

bool MpiFleet::is_broken() {
  return launch_->status() ||
         std::any_of(members_.begin(), members_.end(), [](const Member& member) {
           return member.rank_lost || member.watcher_lost || member.end;
         });
}

// A rank whose process has ended explains more than one that says what went wrong, and both more
// than one that cannot be heard any more. Ranks that had nothing to do die of something else.
Conclusion MpiFleet::conclude(std::size_t ranks) {
  const auto idle = members_.begin() + static_cast<std::ptrdiff_t>(ranks);
  if (std::any_of(idle, members_.end(), [](const Member& member) { return member.end; })) {
    return conclude_outside();
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    const Member& member = members_[i];
    if (member.record && !member.record->trouble.empty()) throw Error(member.record->trouble);
    if (!member.end || member.record) continue;
    return {Ending::kCrashed, describe(static_cast<int>(i), *member.end), false, {}};
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    std::optional<RankRecord>& record = members_[i].record;
    if (!record || record->ending == Ending::kCompleted) continue;
    return {record->ending, std::move(record->message), false, {}};
  }
  if (!is_complete(ranks)) return conclude_outside();
  Conclusion conclusion;
  for (std::size_t i = 0; i < ranks; ++i) {
    conclusion.records.push_back(std::move(*members_[i].record));
  }
  return conclusion;
}

Conclusion MpiFleet::conclude_outside() {
  const auto status = launch_->status();
  return {Ending::kCrashed,
          status ? fmt::format("mpirun {}: {}", how_ended(*status), trimmed(launch_->words()))
                 : "a rank that had nothing to do is gone, or one with its watcher",
          true,
          {}};
}

}  // namespace shardproof
