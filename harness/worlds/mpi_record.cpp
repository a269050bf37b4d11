#include "harness/worlds/mpi_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/run/pack.h"
#include "harness/worlds/placed_rank.h"

namespace shardproof {
namespace {

// The names that a trace uses have static storage.
constexpr std::array<std::string_view, 9> kOperations{
    "send",       "receive",   "all_reduce", "all_reduce_maximum", "all_gather", "reduce_scatter",
    "all_to_all", "broadcast", "barrier"};

std::string_view operation_of(std::string_view text) {
  const auto found = std::find(kOperations.begin(), kOperations.end(), text);
  if (found == kOperations.end()) throw Error("a rank names an unknown operation");
  return *found;
}

template <typename Enum>
Enum unpack_enum(Unpack& unpack) {
  return static_cast<Enum>(unpack.whole());
}

// Each element takes at least one byte: a count beyond that is damage.
std::size_t unpack_count(Unpack& unpack) {
  const std::int64_t count = unpack.whole();
  if (count < 0 || count > static_cast<std::int64_t>(unpack.left())) {
    throw Error("a rank sent a damaged record");
  }
  return static_cast<std::size_t>(count);
}

template <typename Value, typename Put>
void pack_all(Pack& pack, const std::vector<Value>& values, Put put) {
  pack.whole(static_cast<std::int64_t>(values.size()));
  for (const Value& value : values) put(value);
}

template <typename Value, typename Get>
std::vector<Value> unpack_all(Unpack& unpack, Get get) {
  std::vector<Value> values(unpack_count(unpack));
  for (Value& value : values) get(value);
  return values;
}

void pack_facts(Pack& pack, const RankFacts& facts) {
  pack.real(facts.meter.multiply_adds).real(facts.meter.score_elements).real(facts.meter.seconds);
  pack.whole(facts.peak_bytes).whole(facts.peak_received_bytes).real(facts.finished_at);
  pack.real(facts.exposed_seconds);
  pack_all(pack, facts.traffic, [&](const Traffic& sum) {
    pack.whole(static_cast<int>(sum.phase)).text(sum.operation).text(sum.axis);
    pack.whole(sum.calls).whole(sum.bytes);
  });
}

RankFacts unpack_facts(Unpack& unpack) {
  RankFacts facts;
  facts.meter.multiply_adds = unpack.real();
  facts.meter.score_elements = unpack.real();
  facts.meter.seconds = unpack.real();
  facts.peak_bytes = unpack.whole();
  facts.peak_received_bytes = unpack.whole();
  facts.finished_at = unpack.real();
  facts.exposed_seconds = unpack.real();
  facts.traffic = unpack_all<Traffic>(unpack, [&](Traffic& sum) {
    sum.phase = unpack_enum<Phase>(unpack);
    sum.operation = unpack.text();
    sum.axis = unpack.text();
    sum.calls = unpack.whole();
    sum.bytes = unpack.whole();
  });
  return facts;
}

void pack_event(Pack& pack, const Event& event) {
  pack.whole(event.rank).whole(static_cast<int>(event.phase)).text(event.operation);
  pack.text(event.axis).whole(event.peer).whole(event.bytes).real(event.start).real(event.end);
}

void unpack_event(Unpack& unpack, Event& event) {
  event.rank = static_cast<int>(unpack.whole());
  event.phase = unpack_enum<Phase>(unpack);
  event.operation = operation_of(unpack.text());
  event.axis = unpack.text();
  event.peer = static_cast<int>(unpack.whole());
  event.bytes = unpack.whole();
  event.start = unpack.real();
  event.end = unpack.real();
}

std::string_view text_of(const auto& letters) {
  return {letters.data(), strnlen(letters.data(), letters.size())};
}

}  // namespace

std::string Greeting::packed() const {
  return Pack().text(token).whole(is_watcher).whole(rank).whole(ranks).bytes();
}

Greeting Greeting::unpacked(std::string_view bytes) {
  Unpack unpack(bytes);
  Greeting greeting;
  greeting.token = unpack.text();
  greeting.is_watcher = unpack.whole() != 0;
  greeting.rank = static_cast<int>(unpack.whole());
  greeting.ranks = static_cast<int>(unpack.whole());
  return greeting;
}

std::string Order::packed() const {
  return Pack().whole(run).text(text).whole(keep_trace).real(limit_seconds).bytes();
}

Order Order::unpacked(std::string_view bytes) {
  Unpack unpack(bytes);
  Order order;
  order.run = unpack.whole();
  order.text = unpack.text();
  order.keep_trace = unpack.whole() != 0;
  order.limit_seconds = unpack.real();
  return order;
}

std::string RankRecord::packed() const {
  Pack pack;
  pack.whole(run).whole(static_cast<int>(ending)).text(message).text(trouble);
  pack_all(pack, findings, [&](const Finding& finding) {
    pack.whole(static_cast<int>(finding.breach)).whole(finding.rank).text(finding.tensor);
    pack.whole(finding.element).text(finding.detail);
  });
  pack_facts(pack, facts);
  pack_all(pack, events, [&](const Event& event) { pack_event(pack, event); });
  pack_all(pack, flows, [&](const Flow& flow) {
    pack.text(flow.axis).whole(flow.peer).whole(flow.sent).whole(flow.expected);
  });
  pack_all(pack, parts, [&](const std::string& part) { pack.text(part); });
  return pack.bytes();
}

RankRecord RankRecord::unpacked(std::string_view bytes) {
  Unpack unpack(bytes);
  RankRecord record;
  record.run = unpack.whole();
  record.ending = unpack_enum<Ending>(unpack);
  record.message = unpack.text();
  record.trouble = unpack.text();
  record.findings = unpack_all<Finding>(unpack, [&](Finding& finding) {
    finding.breach = unpack_enum<Breach>(unpack);
    finding.rank = static_cast<int>(unpack.whole());
    finding.tensor = unpack.text();
    finding.element = unpack.whole();
    finding.detail = unpack.text();
  });
  record.facts = unpack_facts(unpack);
  record.events = unpack_all<Event>(unpack, [&](Event& event) { unpack_event(unpack, event); });
  record.flows = unpack_all<Flow>(unpack, [&](Flow& flow) {
    flow.axis = unpack.text();
    flow.peer = static_cast<int>(unpack.whole());
    flow.sent = unpack.whole();
    flow.expected = unpack.whole();
  });
  record.parts = unpack_all<std::string>(unpack, [&](std::string& part) { part = unpack.text(); });
  return record;
}

std::string Activity::last_event() const {
  const std::string_view name = text_of(operation);
  if (name.empty()) return "no communication";
  const std::string where = place(text_of(axis), phase);
  if (peer < 0) return fmt::format("{} ({})", name, where);
  return fmt::format("{} {} rank {} (tag {}, {})", name, name == "send" ? "to" : "from", peer, tag,
                     where);
}

std::string Report::packed() const {
  const std::string_view bytes(reinterpret_cast<const char*>(&activity), sizeof activity);
  return Pack()
      .whole(has_ended)
      .whole(status)
      .text(bytes)
      .real(processor_seconds)
      .whole(is_stopped)
      .whole(is_asleep)
      .text(words)
      .bytes();
}

Report Report::unpacked(std::string_view bytes) {
  Unpack unpack(bytes);
  Report report;
  report.has_ended = unpack.whole() != 0;
  report.status = static_cast<int>(unpack.whole());
  const std::string activity = unpack.text();
  if (activity.size() != sizeof report.activity) throw Error("a watcher sent a damaged report");
  std::memcpy(&report.activity, activity.data(), activity.size());
  report.processor_seconds = unpack.real();
  report.is_stopped = unpack.whole() != 0;
  report.is_asleep = unpack.whole() != 0;
  report.words = unpack.text();
  return report;
}

}  // namespace shardproof
