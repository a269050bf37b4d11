#include "harness/devices/cuda/nccl.h"

#include <cstring>
#include <vector>

#include "harness/devices/cuda/doubles/nccl_clique.h"

namespace shardproof::cuda_double {
namespace {

constexpr int kVersion = 23000;

// A call, or the joining of a communicator, that waits for the end of the group.
struct Asked {
  ncclComm_t communicator = nullptr;
  NcclPart part;
};

// A thread's group, as the real library has one.
struct OpenGroup {
  int depth = 0;
  std::vector<Asked> asked;
  std::vector<std::shared_ptr<NcclClique>> joining;
};

OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

// What an id stands for until all have joined.
struct Founding {
  std::shared_ptr<NcclClique> clique;
};

ncclResult_t get_version(int* version) {
  *version = kVersion;
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
  }
  return "unknown result code";
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  auto* founding = new Founding();
  *id = {};
  std::memcpy(id->internal, &founding, sizeof founding);
  return ncclSuccess;
}

// The real one waits for the other members, which outside a group a thread that is all of them
// cannot.
ncclResult_t comm_init_rank(ncclComm_t* communicator, int size, ncclUniqueId id, int position) {
  Founding* founding = nullptr;
  std::memcpy(&founding, id.internal, sizeof founding);
  if (communicator == nullptr || founding == nullptr || position < 0 || position >= size) {
    return ncclInvalidArgument;
  }
  OpenGroup& group = open_group();
  if (group.depth == 0 && size > 1) return ncclInvalidUsage;
  if (founding->clique == nullptr) founding->clique = std::make_shared<NcclClique>(size);
  const std::shared_ptr<NcclClique> clique = founding->clique;
  if (clique->size() != size || !clique->join(position)) return ncclInvalidArgument;
  *communicator = new NcclMember{clique, position};
  if (clique->is_complete()) delete founding;
  if (group.depth > 0) group.joining.push_back(clique);
  return ncclSuccess;
}

ncclResult_t comm_leave(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  communicator->clique->leave(communicator->position);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t communicator, ncclResult_t* error) {
  if (communicator == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = communicator->clique->error(communicator->position);
  return ncclSuccess;
}

// Parts of one communicator on one stream, which the stream does as one piece of work.
void put_on_stream(ncclComm_t communicator, cudaStream_t stream, std::vector<NcclPart> parts) {
  std::vector<NcclPart*> posted;
  for (NcclPart& part : parts) {
    part.place = asked_of(stream);
    posted.push_back(&communicator->clique->post(part));
  }
  enqueue_when(stream, [clique = communicator->clique, posted] {
    bool all = true;
    for (NcclPart* part : posted) all = clique->is_done(*part) && all;
    return all;
  });
}

ncclResult_t group_start() {
  ++open_group().depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  OpenGroup& group = open_group();
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  const std::vector<Asked> asked = std::exchange(group.asked, {});
  for (const auto& clique : std::exchange(group.joining, {})) {
    if (!clique->is_complete()) return ncclInvalidUsage;  // the real one waits for ever
  }
  std::vector<bool> taken(asked.size(), false);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<NcclPart> parts;
    for (std::size_t j = i; j < asked.size(); ++j) {
      const bool together = asked[j].communicator == asked[i].communicator &&
                            asked[j].part.stream == asked[i].part.stream;
      if (taken[j] || !together) continue;
      parts.push_back(asked[j].part);
      taken[j] = true;
    }
    if (!parts.empty()) {
      put_on_stream(asked[i].communicator, asked[i].part.stream, std::move(parts));
    }
  }
  return ncclSuccess;
}

ncclResult_t ask(ncclComm_t communicator, NcclPart part) {
  if (communicator == nullptr || part.stream == nullptr) return ncclInvalidArgument;
  const bool names_somebody =
      part.is_transfer() || part.operation == "broadcast" || part.operation == "reduce";
  if (names_somebody && (part.peer < 0 || part.peer >= communicator->clique->size())) {
    return ncclInvalidArgument;
  }
  const bool reads = part.operation != "receive";
  const bool writes = part.operation != "send";
  if (part.count > 0 && ((reads && part.from == nullptr) || (writes && part.to == nullptr))) {
    return ncclInvalidArgument;
  }
  part.position = communicator->position;
  if (open_group().depth > 0) {
    open_group().asked.push_back({communicator, part});
  } else {
    put_on_stream(communicator, part.stream, {part});
  }
  return ncclSuccess;
}

ncclResult_t send(const void* from, std::size_t count, ncclDataType_t type, int peer,
                  ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, {.operation = "send",
                            .from = from,
                            .count = count,
                            .type = type,
                            .peer = peer,
                            .stream = stream});
}

ncclResult_t receive(void* to, std::size_t count, ncclDataType_t type, int peer,
                     ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, {.operation = "receive",
                            .to = to,
                            .count = count,
                            .type = type,
                            .peer = peer,
                            .stream = stream});
}

NcclPart collective(std::string_view operation, const void* from, void* to, std::size_t count,
                    ncclDataType_t type, cudaStream_t stream, int root = -1) {
  return {.operation = operation,
          .from = from,
          .to = to,
          .count = count,
          .type = type,
          .peer = root,
          .stream = stream};
}

ncclResult_t all_reduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, collective("all_reduce", from, to, count, type, stream));
}

ncclResult_t reduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                    int root, ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, collective("reduce", from, to, count, type, stream, root));
}

ncclResult_t reduce_scatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, collective("reduce_scatter", from, to, count, type, stream));
}

ncclResult_t all_gather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, collective("all_gather", from, to, count, type, stream));
}

ncclResult_t broadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t communicator, cudaStream_t stream) {
  return ask(communicator, collective("broadcast", from, to, count, type, stream, root));
}

}  // namespace

const Nccl& nccl() {
  static constexpr Nccl doubles{
      &get_version, &get_error_string,     &get_unique_id, &comm_init_rank, &comm_leave,
      &comm_leave,  &comm_get_async_error, &group_start,   &group_end,      &send,
      &receive,     &all_reduce,           &reduce,        &reduce_scatter, &all_gather,
      &broadcast,
  };
  return doubles;
}

}  // namespace shardproof::cuda_double
