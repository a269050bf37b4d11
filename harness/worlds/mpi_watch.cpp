#include "harness/worlds/mpi_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardproof {
namespace {

constexpr int kDescribed = 8;
// A rank that waits looks for its message all the time. When every rank has looked for so long, in
// its own processor time, nothing can be under way.
constexpr double kVainSeconds = 0.2;
constexpr double kStoppedSeconds = 1;

using State = Activity::State;

bool waits(const Report& report) {
  return report.activity.state == State::kWaiting || report.activity.state == State::kFinished;
}

std::string sentence(int rank, const Report& report) {
  const std::string last = report.activity.last_event();
  switch (report.activity.state) {
    case State::kWaiting:
      return fmt::format("rank {} waits in {}", rank, last);
    case State::kFinished:
      return fmt::format("rank {} has finished", rank);
    case State::kIdle:
      return fmt::format("rank {} has not begun", rank);
    case State::kComputing:
      break;
  }
  return fmt::format("rank {} is busy after {}", rank, last);
}

}  // namespace

MpiWatch::MpiWatch(int ranks, double limit_seconds)
    : limit_seconds_(limit_seconds), views_(static_cast<std::size_t>(ranks)) {}

void MpiWatch::add(int rank, const Report& report, double now) {
  // A rank that only a larger case before had may answer late.
  if (static_cast<std::size_t>(rank) >= views_.size()) return;
  View& view = views_[static_cast<std::size_t>(rank)];
  if (!view.seen) view.first_processor = report.processor_seconds;
  const bool same = view.seen && report.activity.events == view.latest.activity.events;
  if (!waits(report)) {
    view.waiting_since = -1;
    if (same && report.is_asleep && view.latest.is_asleep) view.asleep += now - view.reported_at;
  } else if (!same || view.waiting_since < 0) {
    view.waiting_since = now;
    view.waiting_processor = report.processor_seconds;
  }
  if (!report.is_stopped) {
    view.stopped_since = -1;
  } else if (view.stopped_since < 0) {
    view.stopped_since = now;
  }
  view.seen = true;
  view.latest = report;
  view.reported_at = now;
}

bool MpiWatch::waits_in_vain(const View& view, double now) const {
  if (view.waiting_since < 0) return false;
  return view.latest.processor_seconds - view.waiting_processor >= kVainSeconds ||
         now - view.waiting_since > 4 * limit_seconds_;
}

std::optional<Stuck> MpiWatch::stuck(double now) const {
  bool all_wait =
      std::any_of(views_.begin(), views_.end(), [](const View& view) { return !view.finished; });
  bool overdue = all_wait && now > 4 * limit_seconds_;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const View& view = views_[i];
    if (view.finished) continue;
    if (view.stopped_since >= 0 && now - view.stopped_since > kStoppedSeconds) {
      return Stuck{Ending::kTimedOut,
                   fmt::format("rank {} was stopped by a signal; {}", i, sentences(true))};
    }
    all_wait = all_wait && waits_in_vain(view, now);
    if (!view.seen || waits(view.latest)) continue;
    const double used = view.latest.processor_seconds - view.first_processor + view.asleep;
    overdue = overdue || (now > limit_seconds_ && used > limit_seconds_ / 2);
  }
  if (all_wait) return Stuck{Ending::kDeadlocked, "no rank can go on: " + sentences(false)};
  if (!overdue) return std::nullopt;
  return Stuck{Ending::kTimedOut,
               fmt::format("still running after {:.1f} s: {}", now, sentences(true))};
}

std::string MpiWatch::sentences(bool only_unfinished) const {
  std::string text;
  int described = 0;
  for (std::size_t i = 0; i < views_.size() && described < kDescribed; ++i) {
    if (views_[i].finished && only_unfinished) continue;
    if (described++ > 0) text += "; ";
    const int rank = static_cast<int>(i);
    text += views_[i].finished ? fmt::format("rank {} has finished", rank)
                               : sentence(rank, views_[i].latest);
  }
  return text;
}

}  // namespace shardproof
