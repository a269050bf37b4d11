#include "harness/worlds/sim_communicator.h"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof {
namespace {

void check_view(std::string_view operation, const View& data) {
  if (!data.is_dense()) {
    throw std::invalid_argument(
        fmt::format("{} of a view of shape {} that is not dense", operation, data.shape.text()));
  }
  if (data.data == nullptr && data.elements() > 0) {
    throw std::invalid_argument(
        fmt::format("{} of a view of shape {} without memory", operation, data.shape.text()));
  }
}

void check_peer(std::string_view operation, int peer, const SimGroup& group) {
  if (peer >= 0 && peer < group.size()) return;
  throw std::invalid_argument(fmt::format("{} with rank {} of a group of {} ({} axis)", operation,
                                          peer, group.size(), group.axis));
}

void check_parts(std::string_view operation, std::span<const View> parts, const SimGroup& group) {
  if (static_cast<int>(parts.size()) != group.size()) {
    throw std::invalid_argument(fmt::format("{} with {} parts in a group of {} ({} axis)",
                                            operation, parts.size(), group.size(), group.axis));
  }
  for (const View& part : parts) check_view(operation, part);
}

}  // namespace

SimCommunicator::SimCommunicator(SimRun& run, Messages& messages, Collectives& collectives,
                                 SimRank& rank, std::shared_ptr<SimGroup> group, int position)
    : run_(run),
      messages_(messages),
      collectives_(collectives),
      rank_(rank),
      group_(std::move(group)),
      position_(position) {}

Request SimCommunicator::start_send(const View& data, int target, int tag) {
  if (run_.scheduler.is_unwinding()) return {};
  check_view("send", data);
  check_peer("send", target, *group_);
  return messages_.start(rank_, *group_, data, target, tag, Direction::kSend);
}

Request SimCommunicator::start_receive(const View& data, int source, int tag) {
  if (run_.scheduler.is_unwinding()) return {};
  check_view("receive", data);
  check_peer("receive", source, *group_);
  return messages_.start(rank_, *group_, data, source, tag, Direction::kReceive);
}

void SimCommunicator::wait(Request& request) {
  if (run_.scheduler.is_unwinding()) return;
  messages_.wait(rank_, request);
}

void SimCommunicator::all_reduce(const View& data) {
  check_view("all_reduce", data);
  join({.operation = "all_reduce", .data = data, .parts = {}, .received = {}});
}

void SimCommunicator::all_reduce_maximum(const View& data) {
  check_view("all_reduce_maximum", data);
  join({.operation = "all_reduce_maximum", .data = data, .parts = {}, .received = {}});
}

void SimCommunicator::all_gather(const View& mine, std::span<const View> parts) {
  check_view("all_gather", mine);
  check_parts("all_gather", parts, *group_);
  join({.operation = "all_gather", .data = mine, .parts = parts, .received = {}});
}

void SimCommunicator::reduce_scatter(std::span<const View> parts, const View& mine) {
  check_view("reduce_scatter", mine);
  check_parts("reduce_scatter", parts, *group_);
  join({.operation = "reduce_scatter", .data = mine, .parts = parts, .received = {}});
}

void SimCommunicator::all_to_all(std::span<const View> sent, std::span<const View> received) {
  check_parts("all_to_all", sent, *group_);
  check_parts("all_to_all", received, *group_);
  join({.operation = "all_to_all", .data = {}, .parts = sent, .received = received});
}

void SimCommunicator::broadcast(const View& data, int root) {
  check_view("broadcast", data);
  check_peer("broadcast", root, *group_);
  join({.operation = "broadcast", .data = data, .parts = {}, .received = {}, .root = root});
}

void SimCommunicator::barrier() {
  join({.operation = "barrier", .data = {}, .parts = {}, .received = {}});
}

void SimCommunicator::join(Call call) {
  if (run_.scheduler.is_unwinding()) return;
  call.rank = &rank_;
  collectives_.join(*group_, position_, call);
}

}  // namespace shardproof
