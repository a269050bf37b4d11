#include "harness/devices/cuda/doubles/nccl_clique.h"

#include <algorithm>
#include <cstring>

#include "harness/model/dtype.h"

namespace shardproof::cuda_double {
namespace {

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return DType::kF16;
    case ncclFloat64:
      return DType::kF64;
    case ncclBfloat16:
      return DType::kBf16;
    case ncclFloat32:
      break;
  }
  return DType::kF32;
}

// Element `i` of the sum: it starts behind the member to which its chunk belongs, goes round the
// ring and is rounded at every one.
double ring_sum(const std::vector<NcclPart*>& parts, DType dtype, std::size_t i,
                std::size_t owner) {
  double sum = 0;
  for (std::size_t step = 0; step < parts.size(); ++step) {
    const NcclPart& part = *parts[(owner + 1 + step) % parts.size()];
    const double term = load(dtype, part.from, static_cast<std::ptrdiff_t>(i));
    sum = step == 0 ? term : round_to(dtype, sum + term);
  }
  return sum;
}

// The sums of elements [first, first + count), which belong to one member or to all in turns.
std::vector<double> ring_sums(const std::vector<NcclPart*>& parts, std::size_t first,
                              std::size_t count, int owner) {
  std::vector<double> sums(count);
  const DType dtype = dtype_of(parts[0]->type);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = owner >= 0 ? static_cast<std::size_t>(owner) : i * parts.size() / count;
    sums[i] = ring_sum(parts, dtype, first + i, at);
  }
  return sums;
}

void store_all(const NcclPart& part, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(dtype_of(part.type), part.to, static_cast<std::ptrdiff_t>(i), values[i]);
  }
}

}  // namespace

std::size_t NcclPart::bytes() const { return count * storage_bytes(dtype_of(type)); }

bool NcclClique::join(int position) { return !std::exchange(seat(position).taken, true); }

bool NcclClique::is_complete() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const Seat& each) { return each.taken; });
}

NcclPart& NcclClique::post(NcclPart part) {
  NcclPart& kept = parts_.emplace_back(part);
  if (kept.is_transfer()) {
    meet(kept);
  } else {
    enter(kept);
  }
  return kept;
}

// The transfers between two members meet in the order of their calls.
void NcclClique::meet(NcclPart& part) {
  const bool sends = part.operation == "send";
  const auto pair =
      sends ? std::pair(part.position, part.peer) : std::pair(part.peer, part.position);
  std::deque<NcclPart*>& others = (sends ? receives_ : sends_)[pair];
  if (others.empty()) {
    (sends ? sends_ : receives_)[pair].push_back(&part);
    return;
  }
  NcclPart& other = *others.front();
  others.pop_front();
  if (other.count != part.count || other.type != part.type) return disagree(part, other);
  part.other = &other;
  other.other = &part;
}

void NcclClique::enter(NcclPart& part) {
  part.collective = seat(part.position).collectives++;
  if (part.collective == collectives_.size()) collectives_.emplace_back(seats_.size());
  std::vector<NcclPart*>& parts = collectives_[part.collective];
  for (NcclPart* each : parts) {
    if (each == nullptr) continue;
    const bool agree = each->operation == part.operation && each->count == part.count &&
                       each->type == part.type && each->peer == part.peer;
    if (!agree) return disagree(part, *each);
  }
  parts[static_cast<std::size_t>(part.position)] = &part;
}

void NcclClique::disagree(const NcclPart& a, const NcclPart& b) {
  seat(a.position).error = seat(b.position).error = ncclInvalidUsage;
}

bool NcclClique::has_come(const NcclPart& part) {
  return !seat(part.position).gone && reaches(part.stream, part.place);
}

bool NcclClique::is_done(NcclPart& part) {
  if (part.done || seat(part.position).gone) return true;
  if (part.is_transfer()) {
    NcclPart* other = part.other;
    if (other == nullptr || !has_come(part) || !has_come(*other)) return false;
    if (part.done) return true;  // the other side did it meanwhile
    const NcclPart& sender = part.operation == "send" ? part : *other;
    const NcclPart& receiver = part.operation == "send" ? *other : part;
    std::memmove(receiver.to, sender.from, sender.bytes());
    part.done = other->done = true;
    note_progress();
    return true;
  }
  const std::vector<NcclPart*>& parts = collectives_[part.collective];
  const auto is_there = [&](NcclPart* each) { return each != nullptr && has_come(*each); };
  if (!std::all_of(parts.begin(), parts.end(), is_there)) return false;
  if (part.done) return true;
  perform(parts);
  for (NcclPart* each : parts) each->done = true;
  note_progress();
  return true;
}

// Everything is read before anything is written, as targets may be sources.
void perform(const std::vector<NcclPart*>& parts) {
  const NcclPart& first = *parts[0];
  const std::size_t bytes = first.bytes();
  std::vector<std::vector<double>> sums;
  std::vector<std::byte> data;
  const auto take = [&](const NcclPart& part) {
    const auto* from = static_cast<const std::byte*>(part.from);
    data.insert(data.end(), from, from + bytes);
  };
  if (first.operation == "broadcast") {
    take(*parts[static_cast<std::size_t>(first.peer)]);
    for (const NcclPart* part : parts) std::memcpy(part->to, data.data(), bytes);
  } else if (first.operation == "all_gather") {
    for (const NcclPart* part : parts) take(*part);
    for (const NcclPart* part : parts) std::memcpy(part->to, data.data(), data.size());
  } else if (first.operation == "all_reduce") {
    sums.push_back(ring_sums(parts, 0, first.count, -1));
    for (const NcclPart* part : parts) store_all(*part, sums[0]);
  } else if (first.operation == "reduce") {
    sums.push_back(ring_sums(parts, 0, first.count, first.peer));
    store_all(*parts[static_cast<std::size_t>(first.peer)], sums[0]);
  } else {  // reduce_scatter
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sums.push_back(ring_sums(parts, i * first.count, first.count, static_cast<int>(i)));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) store_all(*parts[i], sums[i]);
  }
}

}  // namespace shardproof::cuda_double
