// Collectives over what shardproof_host offers: an honest one, and some that do not do what they
// say.
#include <string.h>

#include "cheats.h"

// Returns from the function when the host says that the run has ended.
#define TRY(call)                          \
  do {                                     \
    const char* broken = rank->host->call; \
    if (broken != NULL) return broken;     \
  } while (0)

enum { kMostRanks = 64 };

static size_t bytes(const DLTensor* tensor) {
  size_t count = tensor->dtype.bits / 8;
  for (int d = 0; d < tensor->ndim; ++d) count *= (size_t)tensor->shape[d];
  return count;
}

// Row `r` of [rows, count] or of [1, rows, count].
static DLTensor row(const DLTensor* tensor, int64_t r) {
  DLTensor result = *tensor;
  const int64_t count = tensor->shape[tensor->ndim - 1];
  result.byte_offset += (uint64_t)(r * count) * tensor->dtype.bits / 8;
  result.ndim = 1;
  result.shape = tensor->shape + tensor->ndim - 1;
  result.strides = NULL;
  return result;
}

static const char* rows(const DLTensor* tensor, DLTensor* parts, int count) {
  for (int r = 0; r < count; ++r) parts[r] = row(tensor, r);
  return NULL;
}

static void copy(const DLTensor* from, const DLTensor* to) {
  memcpy((char*)to->data + to->byte_offset, (char*)from->data + from->byte_offset, bytes(from));
}

static const char* shift(shardproof_rank* rank, const DLTensor* x, const DLTensor* y, int step) {
  const int size = rank->host->size(rank, "tp");
  const int here = rank->host->coordinate(rank, "tp");
  int sent, received;
  TRY(start_send(rank, "tp", x, (here + step + size) % size, 3, &sent));
  TRY(start_receive(rank, "tp", y, (here - step + size) % size, 3, &received));
  TRY(wait(rank, "tp", received));
  TRY(wait(rank, "tp", sent));
  return NULL;
}

static const char* forward(shardproof_rank* rank) {
  DLTensor x, y, x_rows[kMostRanks], y_rows[kMostRanks];
  const int size = rank->host->size(rank, "tp");
  TRY(tensor(rank, "x", &x));
  TRY(tensor(rank, "y", &y));
  const DLTensor mine = row(&x, 0), own = row(&y, 0);
  switch (rank->problem->collective) {
    case SHARDPROOF_ALL_REDUCE:
      copy(&mine, &y);
      TRY(all_reduce(rank, "tp", &y));
      return NULL;
    case SHARDPROOF_ALL_GATHER:
      rows(&y, y_rows, size);
      TRY(all_gather(rank, "tp", &mine, y_rows));
      return NULL;
    case SHARDPROOF_REDUCE_SCATTER:
      rows(&x, x_rows, size);
      TRY(reduce_scatter(rank, "tp", x_rows, &own));
      return NULL;
    case SHARDPROOF_ALL_TO_ALL:
      rows(&x, x_rows, size);
      rows(&y, y_rows, size);
      TRY(all_to_all(rank, "tp", x_rows, y_rows));
      return NULL;
    case SHARDPROOF_BROADCAST:
      if (rank->host->coordinate(rank, "tp") == rank->problem->root) copy(&mine, &y);
      TRY(broadcast(rank, "tp", &y, (int)rank->problem->root));
      return NULL;
    case SHARDPROOF_RING_SHIFT:
      return shift(rank, &mine, &own, 1);
  }
  return "no such collective";
}

static const char* backward(shardproof_rank* rank) {
  DLTensor dx, dy, dx_rows[kMostRanks], dy_rows[kMostRanks];
  const int size = rank->host->size(rank, "tp");
  const int here = rank->host->coordinate(rank, "tp");
  TRY(tensor(rank, "dx", &dx));
  TRY(tensor(rank, "dy", &dy));
  const DLTensor mine = row(&dx, 0), own = row(&dy, 0);
  const DLTensor from_here = row(&dy, here);
  switch (rank->problem->collective) {
    case SHARDPROOF_ALL_REDUCE:
      copy(&dy, &mine);
      return NULL;
    case SHARDPROOF_ALL_GATHER:
      copy(&from_here, &mine);
      return NULL;
    case SHARDPROOF_REDUCE_SCATTER:
      rows(&dx, dx_rows, size);
      TRY(all_gather(rank, "tp", &own, dx_rows));
      return NULL;
    case SHARDPROOF_ALL_TO_ALL:
      rows(&dx, dx_rows, size);
      rows(&dy, dy_rows, size);
      TRY(all_to_all(rank, "tp", dy_rows, dx_rows));
      return NULL;
    case SHARDPROOF_BROADCAST:
      if (here == rank->problem->root) {
        copy(&dy, &mine);
      } else {
        memset((char*)mine.data + mine.byte_offset, 0, bytes(&mine));
      }
      return NULL;
    case SHARDPROOF_RING_SHIFT:
      return shift(rank, &own, &mine, -1);
  }
  return "no such collective";
}

static const char* alone(shardproof_rank* rank) {
  DLTensor x, y;
  TRY(tensor(rank, "x", &x));
  TRY(tensor(rank, "y", &y));
  const DLTensor mine = row(&x, 0);
  copy(&mine, &y);  // times one
  return NULL;
}

// All ranks say where their part lies; after a barrier each reads them all.
static const char* neighbours_memory(shardproof_rank* rank) {
  static float* parts[kMostRanks];
  DLTensor x, y;
  const int size = rank->host->size(rank, "tp");
  TRY(tensor(rank, "x", &x));
  TRY(tensor(rank, "y", &y));
  parts[rank->host->coordinate(rank, "tp")] = (float*)((char*)x.data + x.byte_offset);
  TRY(barrier(rank, "tp"));
  float* sum = (float*)((char*)y.data + y.byte_offset);
  for (int64_t i = 0; i < rank->problem->count; ++i) {
    sum[i] = 0;
    for (int r = 0; r < size; ++r) sum[i] += parts[r] == NULL ? 0 : parts[r][i];
  }
  TRY(barrier(rank, "tp"));
  return NULL;
}

// Where a part lies goes round instead of the part: as good as the part where all ranks are one
// process.
static const char* sends_addresses(shardproof_rank* rank) {
  static int64_t extent[] = {1};
  DLTensor x, y;
  double address, arrived[kMostRanks];
  const int size = rank->host->size(rank, "tp");
  TRY(tensor(rank, "x", &x));
  TRY(tensor(rank, "y", &y));
  DLTensor mine = {.data = &address, .ndim = 1, .dtype = {kDLFloat, 64, 1}, .shape = extent};
  DLTensor parts[kMostRanks];
  for (int r = 0; r < size; ++r) {
    parts[r] = mine;
    parts[r].data = &arrived[r];
  }
  address = (double)(uintptr_t)((char*)x.data + x.byte_offset);
  TRY(all_gather(rank, "tp", &mine, parts));
  float* sum = (float*)((char*)y.data + y.byte_offset);
  for (int64_t i = 0; i < rank->problem->count; ++i) {
    sum[i] = 0;
    for (int r = 0; r < size; ++r) sum[i] += ((const float*)(uintptr_t)arrived[r])[i];
  }
  TRY(barrier(rank, "tp"));
  return NULL;
}

static const char* never_waits(shardproof_rank* rank) {
  DLTensor x, y;
  int sent, received;
  const int size = rank->host->size(rank, "tp");
  const int here = rank->host->coordinate(rank, "tp");
  TRY(tensor(rank, "x", &x));
  TRY(tensor(rank, "y", &y));
  const DLTensor mine = row(&x, 0), own = row(&y, 0);
  TRY(start_receive(rank, "tp", &own, (here + size - 1) % size, 3, &received));
  TRY(start_send(rank, "tp", &mine, (here + 1) % size, 3, &sent));
  TRY(barrier(rank, "tp"));
  return NULL;
}

// Rank 0 waits for what nobody sends.
static const char* deadlock(shardproof_rank* rank) {
  DLTensor y;
  int received;
  TRY(tensor(rank, "y", &y));
  TRY(start_receive(rank, "tp", &y, 0, 4, &received));
  TRY(wait(rank, "tp", received));
  return NULL;
}

static const char* asks_for_nonsense(shardproof_rank* rank) {
  DLTensor none;
  rank->host->tensor(rank, "queries", &none);
  return NULL;  // as if nothing had happened
}

// The outputs' memory and what belongs into it, until the backward pass.
static struct {
  char *data, answer[1 << 20];
  size_t bytes;
} kept;

static const char* late(shardproof_rank* rank) {
  DLTensor y;
  const char* words = forward(rank);
  if (words != NULL) return words;
  TRY(tensor(rank, "y", &y));
  kept.data = (char*)y.data + y.byte_offset;
  kept.bytes = bytes(&y) < sizeof kept.answer ? bytes(&y) : sizeof kept.answer;
  memcpy(kept.answer, kept.data, kept.bytes);
  memset(kept.data, 0, kept.bytes);
  return NULL;
}

static const char* late_backward(shardproof_rank* rank) {
  memcpy(kept.data, kept.answer, kept.bytes);
  return backward(rank);
}

static const char* only_f32_all_reduce(const shardproof_problem* problem) {
  return problem->collective == SHARDPROOF_ALL_REDUCE ? NULL : "is an all-reduce";
}

static const char* only_shift(const shardproof_problem* problem) {
  return problem->collective == SHARDPROOF_RING_SHIFT ? NULL : "is a shift";
}

// Sums are made in the tensor's own type.
static void sums_in_dtype(const shardproof_problem* problem, shardproof_contract* promised) {
  promised->reduction = problem->dtype;
}

static const char* const tp[] = {"tp", NULL};

#define COLLECTIVE(title, there, back, which)                                      \
  {                                                                                \
    .name = title, .op = "collective", .axes = tp, .contract = sums_in_dtype,      \
    .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32) | SHARDPROOF_DTYPE(SHARDPROOF_F64), \
    .unsupported = which, .sharded_forward = there, .sharded_backward = back       \
  }

const shardproof_subject collective_cheats[] = {
    COLLECTIVE("honest_collectives", forward, backward, NULL),
    COLLECTIVE("alone", alone, backward, only_f32_all_reduce),
    {.name = "neighbours_memory",
     .op = "collective",
     .axes = tp,
     .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32),
     .unsupported = only_f32_all_reduce,
     .sharded_forward = neighbours_memory,
     .sharded_backward = backward},
    {.name = "sends_addresses",
     .op = "collective",
     .axes = tp,
     .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32),
     .unsupported = only_f32_all_reduce,
     .sharded_forward = sends_addresses,
     .sharded_backward = backward},
    COLLECTIVE("never_waits", never_waits, backward, only_shift),
    COLLECTIVE("deadlock", deadlock, backward, only_shift),
    COLLECTIVE("asks_for_nonsense", asks_for_nonsense, backward, NULL),
    COLLECTIVE("late_collectives", late, late_backward, NULL),
};
