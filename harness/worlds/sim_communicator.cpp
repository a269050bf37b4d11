#include "harness/worlds/sim_communicator.h"

#include "harness/worlds/arguments.h"

namespace shardproof {
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
  check_peer("send", target, group_->size(), group_->axis);
  return messages_.start(rank_, *group_, data, target, tag, Direction::kSend);
}

Request SimCommunicator::start_receive(const View& data, int source, int tag) {
  if (run_.scheduler.is_unwinding()) return {};
  check_view("receive", data);
  check_peer("receive", source, group_->size(), group_->axis);
  return messages_.start(rank_, *group_, data, source, tag, Direction::kReceive);
}

void SimCommunicator::launch() {
  if (!run_.scheduler.is_unwinding()) messages_.launch(rank_);
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
  check_parts("all_gather", parts, group_->size(), group_->axis);
  join({.operation = "all_gather", .data = mine, .parts = parts, .received = {}});
}

void SimCommunicator::reduce_scatter(std::span<const View> parts, const View& mine) {
  check_view("reduce_scatter", mine);
  check_parts("reduce_scatter", parts, group_->size(), group_->axis);
  join({.operation = "reduce_scatter", .data = mine, .parts = parts, .received = {}});
}

void SimCommunicator::all_to_all(std::span<const View> sent, std::span<const View> received) {
  check_parts("all_to_all", sent, group_->size(), group_->axis);
  check_parts("all_to_all", received, group_->size(), group_->axis);
  join({.operation = "all_to_all", .data = {}, .parts = sent, .received = received});
}

void SimCommunicator::broadcast(const View& data, int root) {
  check_view("broadcast", data);
  check_peer("broadcast", root, group_->size(), group_->axis);
  join({.operation = "broadcast", .data = data, .parts = {}, .received = {}, .root = root});
}

void SimCommunicator::barrier() {
  join({.operation = "barrier", .data = {}, .parts = {}, .received = {}});
}

void SimCommunicator::join(const CollectiveCall& call) {
  if (run_.scheduler.is_unwinding()) return;
  collectives_.join(rank_, *group_, position_, call);
}

}  // namespace shardproof
