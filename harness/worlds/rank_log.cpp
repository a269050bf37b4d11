#include "harness/worlds/rank_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "harness/run/whereabouts.h"
#include "harness/worlds/placed_rank.h"

namespace shardproof {
namespace {

constexpr std::size_t kKeptEvents = 4096;  // room that is kept from case to case

}  // namespace

void RankLog::begin(int rank, Device& device, const RunOptions& options) {
  rank_ = rank;
  device.meter() = Meter{};
  meter_ = &device.meter();
  options_ = options;
  phase = Phase::kForward;
  waited_seconds_ = 0;
  link_free_.clear();
  events_.clear();
  traffic_.clear();
  note_event(rank, "", "", false);
}

double RankLog::compute_seconds() const {
  return meter_->seconds + meter_->multiply_adds / options_.time.multiply_adds_per_second;
}

void RankLog::advance_to(double time) {
  const double waits = time - now();
  if (waits > 0) waited_seconds_ += waits;
}

double RankLog::arrival(int axis_index, std::size_t bytes) {
  const auto axis = static_cast<std::size_t>(axis_index);
  if (link_free_.size() <= axis) link_free_.resize(axis + 1);
  const double begins = std::max(now(), link_free_[axis]);
  link_free_[axis] = begins + options_.time.transfer(0, static_cast<double>(bytes));
  return link_free_[axis] + options_.time.transfer(1, 0);
}

std::size_t RankLog::record(std::string_view operation, const std::string& axis, int peer,
                            Index bytes) {
  const auto found = std::find_if(traffic_.begin(), traffic_.end(), [&](const Traffic& t) {
    return t.phase == phase && t.operation == operation && t.axis == axis;
  });
  note_event(rank_, operation, axis, phase == Phase::kBackward);
  Traffic& sum = found != traffic_.end()
                     ? *found
                     : traffic_.emplace_back(Traffic{phase, std::string(operation), axis, 0, 0});
  last_ = static_cast<std::size_t>(&sum - traffic_.data());
  ++sum.calls;
  sum.bytes += bytes;
  if (!options_.keep_trace) return 0;
  events_.push_back({rank_, phase, operation, axis, peer, bytes, now(), now()});
  return events_.size() - 1;
}

void RankLog::complete(std::size_t event, double end) {
  if (options_.keep_trace) events_[event].end = end;
}

std::string RankLog::after_last_event() const {
  if (traffic_.empty()) return {};
  const Traffic& last = traffic_[last_];
  return fmt::format(" after {} ({})", last.operation, place(last.axis, last.phase));
}

RankFacts RankLog::facts(const Memory& memory) const {
  RankFacts facts;
  facts.meter = *meter_;
  facts.meter.seconds = compute_seconds();
  facts.peak_bytes = memory.peak_bytes();
  facts.peak_received_bytes = memory.peak_received_bytes();
  facts.finished_at = now();
  facts.exposed_seconds = waited_seconds_;
  facts.traffic = traffic_;
  return facts;
}

void RankLog::move_events_to(Trace& trace) {
  trace.insert(trace.end(), std::make_move_iterator(events_.begin()),
               std::make_move_iterator(events_.end()));
  events_.clear();
  if (events_.capacity() > kKeptEvents) events_.shrink_to_fit();
}

}  // namespace shardproof
