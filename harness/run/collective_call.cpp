#include "harness/run/collective_call.h"

#include <fmt/format.h>

namespace shardproof {

bool is_all_reduce(std::string_view operation) {
  return operation == "all_reduce" || operation == "all_reduce_maximum";
}

bool is_reduction(std::string_view operation) {
  return is_all_reduce(operation) || operation == "reduce_scatter";
}

const View* given(const CollectiveCall& call, int to) {
  if (call.operation == "barrier") return nullptr;
  const bool by_target = call.operation == "reduce_scatter" || call.operation == "all_to_all";
  return by_target ? &call.parts[static_cast<std::size_t>(to)] : &call.data;
}

const View* taken(const CollectiveCall& call, int from) {
  if (call.operation == "barrier") return nullptr;
  const auto i = static_cast<std::size_t>(from);
  if (call.operation == "all_gather") return &call.parts[i];
  if (call.operation == "all_to_all") return &call.received[i];
  return &call.data;
}

Index handed_in(const CollectiveCall& call, int position) {
  if (call.operation == "barrier") return 0;
  const bool by_target = call.operation == "reduce_scatter" || call.operation == "all_to_all";
  if (!by_target) return static_cast<Index>(call.data.bytes());
  Index bytes = 0;
  for (std::size_t i = 0; i < call.parts.size(); ++i) {
    const bool to_itself = static_cast<int>(i) == position;
    if (to_itself && call.operation == "all_to_all") continue;
    bytes += static_cast<Index>(call.parts[i].bytes());
  }
  return bytes;
}

std::string size_text(Index elements, DType dtype) {
  return fmt::format("{} {} elements", elements, format(dtype).name);
}

}  // namespace shardproof
