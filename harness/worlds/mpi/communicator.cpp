#include "harness/worlds/mpi/communicator.h"

#include "harness/worlds/arguments.h"

namespace shardproof {

Request MpiCommunicator::start_send(const View& data, int target, int tag) {
  check_view("send", data);
  check_peer("send", target, size(), group_.axis);
  return messages_.send(group_, data, target, tag);
}

Request MpiCommunicator::start_receive(const View& data, int source, int tag) {
  check_view("receive", data);
  check_peer("receive", source, size(), group_.axis);
  return messages_.receive(group_, data, source, tag);
}

void MpiCommunicator::all_reduce(const View& data) {
  check_view("all_reduce", data);
  join({.operation = "all_reduce", .data = data, .parts = {}, .received = {}});
}

void MpiCommunicator::all_reduce_maximum(const View& data) {
  check_view("all_reduce_maximum", data);
  join({.operation = "all_reduce_maximum", .data = data, .parts = {}, .received = {}});
}

void MpiCommunicator::all_gather(const View& mine, std::span<const View> parts) {
  check_view("all_gather", mine);
  check_parts("all_gather", parts, size(), group_.axis);
  join({.operation = "all_gather", .data = mine, .parts = parts, .received = {}});
}

void MpiCommunicator::reduce_scatter(std::span<const View> parts, const View& mine) {
  check_view("reduce_scatter", mine);
  check_parts("reduce_scatter", parts, size(), group_.axis);
  join({.operation = "reduce_scatter", .data = mine, .parts = parts, .received = {}});
}

void MpiCommunicator::all_to_all(std::span<const View> sent, std::span<const View> received) {
  check_parts("all_to_all", sent, size(), group_.axis);
  check_parts("all_to_all", received, size(), group_.axis);
  join({.operation = "all_to_all", .data = {}, .parts = sent, .received = received});
}

void MpiCommunicator::broadcast(const View& data, int root) {
  check_view("broadcast", data);
  check_peer("broadcast", root, size(), group_.axis);
  join({.operation = "broadcast", .data = data, .parts = {}, .received = {}, .root = root});
}

void MpiCommunicator::barrier() {
  join({.operation = "barrier", .data = {}, .parts = {}, .received = {}});
}

void MpiCommunicator::join(const CollectiveCall& call) {
  if (!messages_.is_idle() && call.operation != "barrier") {
    const bool gathers = call.operation == "all_gather";
    messages_.check_idle(call.data, call.operation, !gathers);
    for (const View& part : call.parts) messages_.check_idle(part, call.operation, gathers);
    for (const View& part : call.received) messages_.check_idle(part, call.operation, true);
  }
  collectives_.join(group_, call);
}

}  // namespace shardproof
