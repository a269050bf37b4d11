// Kernels that do not do what they say: what plugin_test.cpp demands that campaigns find. The first
// is honest, the one of tiny.c: the others are that one with something done to it.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cheats.h"

#define shardproof_plugin_v1 tiny_plugin  // this library has a table of its own
#include "../examples/tiny.c"
#undef shardproof_plugin_v1

static float* data(const DLTensor* tensor) {
  return (float*)((char*)tensor->data + tensor->byte_offset);
}

static size_t bytes(const DLTensor* tensor) {
  size_t count = sizeof(float);
  for (int d = 0; d < tensor->ndim; ++d) count *= (size_t)tensor->shape[d];
  return count;
}

static const char* ghost(const shardproof_attention* a) {
  (void)a;
  return NULL;
}

static const char* zeros(const shardproof_attention* a) {
  memset(data(&a->out), 0, bytes(&a->out));
  memset(data(&a->lse), 0, bytes(&a->lse));
  return NULL;
}

// The call before this one: where it was to write, and what it should have written there.
static struct {
  float *out, *lse, *out_answer, *lse_answer;
  size_t out_bytes, lse_bytes;
} before;

static void remember(const shardproof_attention* a) {
  before.out = data(&a->out);
  before.lse = data(&a->lse);
  before.out_bytes = bytes(&a->out);
  before.lse_bytes = bytes(&a->lse);
  before.out_answer = realloc(before.out_answer, before.out_bytes);
  before.lse_answer = realloc(before.lse_answer, before.lse_bytes);
  memcpy(before.out_answer, before.out, before.out_bytes);
  memcpy(before.lse_answer, before.lse, before.lse_bytes);
}

// The answer of a call of the same shape is as good as this one's.
static const char* last_answer(const shardproof_attention* a) {
  if (before.out_bytes == bytes(&a->out) && before.lse_bytes == bytes(&a->lse)) {
    memcpy(data(&a->out), before.out_answer, before.out_bytes);
    memcpy(data(&a->lse), before.lse_answer, before.lse_bytes);
    return NULL;
  }
  forward(a);
  remember(a);
  return NULL;
}

// Writes zeros, and the right answer when it is called for the next time.
static void write_late(void) {
  if (before.out == NULL) return;
  memcpy(before.out, before.out_answer, before.out_bytes);
  memcpy(before.lse, before.lse_answer, before.lse_bytes);
}
static const char* late(const shardproof_attention* a) {
  write_late();
  forward(a);
  remember(a);
  return zeros(a);
}
static const char* late_backward(const shardproof_attention* a) {
  write_late();
  for (const DLTensor* each = &a->dq; each <= &a->dv; ++each) memset(data(each), 0, bytes(each));
  return NULL;
}

static const char* outside(const shardproof_attention* a) {
  forward(a);
  data(&a->out)[bytes(&a->out) / sizeof(float)] = 1;
  return NULL;
}

static const char* inputs(const shardproof_attention* a) {
  forward(a);
  data(&a->q)[0] = 1;
  return NULL;
}

static const char* known_shapes(const shardproof_attention* a) {
  return a->q.shape[1] <= 16 && a->q.shape[3] <= 16 ? forward(a) : zeros(a);
}

// A quarter of the calls is wrong.
static const char* now_and_then(const shardproof_attention* a) {
  static int calls;
  return ++calls % 4 == 0 ? zeros(a) : forward(a);
}

static const char* complains(const shardproof_attention* a) {
  (void)a;
  return "no such kernel image";
}

static const char* segfault(const shardproof_attention* a) {
  volatile int* volatile nowhere = a == NULL ? NULL : (volatile int*)8;
  *nowhere = 1;
  return NULL;
}

static const char* leaves(const shardproof_attention* a) {
  (void)a;
  _exit(0);
}

static const char* hangs(const shardproof_attention* a) {
  for (volatile int turn = 0; a != NULL; ++turn) turn %= 1000;
  return NULL;
}

#define KERNEL(title, function)                                                   \
  {                                                                               \
    .name = title, .op = "attention", .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32), \
    .contract = contract, .attention_forward = function                           \
  }

const shardproof_subject kernel_cheats[] = {
    KERNEL("honest", forward),
    {.name = "ghost",
     .op = "attention",
     .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32),
     .attention_forward = ghost,
     .attention_backward = ghost},
    KERNEL("zeros", zeros),
    KERNEL("last_answer", last_answer),
    {.name = "late",
     .op = "attention",
     .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32),
     .contract = contract,
     .attention_forward = late,
     .attention_backward = late_backward},
    KERNEL("outside", outside),
    KERNEL("inputs", inputs),
    KERNEL("known_shapes", known_shapes),
    KERNEL("now_and_then", now_and_then),
    KERNEL("complains", complains),
    KERNEL("segfault", segfault),
    KERNEL("leaves", leaves),
    KERNEL("hangs", hangs),
};
