// shardproof_plugin.h: how code that shardproof did not write becomes a subject of its campaigns.
// Plain C99, version 1. A plugin is a shared library that exports shardproof_plugin_v1(), which
// returns a table of subjects that lives as long as the library.
//
// Kinds of subjects:
//  - a local kernel, attention or mlp: judged on one rank as `name`, and inside shardproof's own
//    orchestrations: attention as `name@ring` (key/value blocks travel along the mesh axis cp) and
//    `name@heads` (heads are cut along tp), mlp as `name@column_row` (hidden units along tp);
//  - a sharded implementation of one of these: it gets its shards and communicates;
//  - a collective: the same with the operator `collective`.
//
// Memory. Every tensor belongs to shardproof and is valid until the function that got it returns.
// Tensors to be written come poisoned; every element must be written. Inputs must not be written:
// they are compared after the run. A function keeps nothing of what it was given: in another call,
// another rank or another run everything lies somewhere else. Tensors are dense and row-major (and
// their strides are given all the same) unless the subject says any_strides. No extent of what a
// kernel is given is 0; a sharded implementation may own nothing.
//
// Threads and streams. Tensors are in the memory of the host; a function that uses threads or a GPU
// waits for them before it returns. One thread calls at a time. Simulated ranks are fibers of one
// thread, each with a stack of 256 KiB and a copy of the library and its static variables to itself
// (link with -fno-gnu-unique); ranks of the MPI world are processes.
//
// Errors. Functions return NULL, or a line (static memory will do) that says what went wrong. What
// `unsupported` says beforehand is a refusal, and counted as one; errors, crashes, exits and hangs
// are failures. C++ exceptions may leave a function, longjmp may not.
#pragma once

#include <dlpack/dlpack.h>
#include <stdint.h>

#define SHARDPROOF_PLUGIN_VERSION 1

#ifdef __cplusplus
#define SHARDPROOF_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define SHARDPROOF_EXPORT __attribute__((visibility("default")))
#endif

// Storage types. tf32 is stored as f32 whose last 13 bits are 0; bf16 is DLPack's kDLBfloat.
typedef enum shardproof_dtype {
  SHARDPROOF_F64,
  SHARDPROOF_F32,
  SHARDPROOF_TF32,
  SHARDPROOF_BF16,
  SHARDPROOF_F16
} shardproof_dtype;

typedef enum shardproof_activation {
  SHARDPROOF_RELU,
  SHARDPROOF_GELU,       // z Phi(z)
  SHARDPROOF_GELU_TANH,  // its approximation by tanh
  SHARDPROOF_SILU
} shardproof_activation;

typedef enum shardproof_collective {
  SHARDPROOF_ALL_REDUCE,
  SHARDPROOF_ALL_GATHER,
  SHARDPROOF_REDUCE_SCATTER,
  SHARDPROOF_ALL_TO_ALL,
  SHARDPROOF_BROADCAST,
  SHARDPROOF_RING_SHIFT
} shardproof_collective;

// What is computed, and where. Which fields count depends on the operator. `accumulator type`
// below: f64 where dtype is f64, else f32.
typedef struct shardproof_problem {
  const char* op;     // "attention", "mlp" or "collective"
  const char* world;  // "sim" or "mpi"
  shardproof_dtype dtype;

  // attention
  const char* mask;  // its name (shardproof list masks)
  int64_t batch, heads, kv_heads, queries, keys, dim, dim_v;
  double scale;    // the factor on q.k, 1/sqrt(dim) already put in
  double softcap;  // 0: none
  int has_bias;    // a tensor or ALiBi
  int has_sink;

  // mlp
  int64_t tokens, features, hidden, outputs;
  shardproof_activation activation;
  int gated;

  // collective: `parts` contributions of `count` elements
  shardproof_collective collective;
  int64_t parts, count, root;
} shardproof_problem;

// What the subject promises: where it rounds and what it keeps. Comes filled with the defaults:
// everything in the accumulator type, except that factors of the second product (probability,
// score_gradient), where dtype has 16 bits, and saved_out and middle are of the problem's dtype;
// and `operand` is tf32 where dtype is. A promise is no wish: results are judged by it.
typedef struct shardproof_contract {
  shardproof_dtype accumulator;     // of every matrix product
  shardproof_dtype elementwise;     // arithmetic of softmax, activation, norm
  shardproof_dtype score;           // in which q k^T and dP are stored
  shardproof_dtype probability;     // of P before P v and P^T dout
  shardproof_dtype score_gradient;  // of dS before dS k and dS^T q
  shardproof_dtype saved_out;       // of the out from which delta = rowsum(dout * out) is formed
  shardproof_dtype lse;             // of lse, between the passes and as an output
  shardproof_dtype block_out;       // kernels: of the out that a ring merges; out has this dtype
  shardproof_dtype query_gradient;  // sum of dq over ring steps
  shardproof_dtype kv_gradient;     // sums of dk and dv over ring steps
  shardproof_dtype operand;         // to which operands of products are rounded (tf32)
  shardproof_dtype middle;          // between two products of one operator: z, a, da, dz of an mlp
  shardproof_dtype reduction;       // of what reductions over ranks add
  int truncating;                   // the accumulator rounds toward zero; default 0
  int merge_blocks;  // sharded attention: normalised blocks are merged (1) or maximum, normaliser
                     // and accumulator are carried from block to block (0, the default)
  int rescales;      // online-softmax rescales per row: tiles of keys; default 1 a block of keys
  double ulp_exp, ulp_log, ulp_tanh, ulp_erf;  // errors of the library, in units in the last
                                               // place; defaults 3, 3, 2, 1
  int repeatable;                              // the same case gives the same bits; default 1
  int schedule_independent;                    // so does another order of messages; default 1
  int hidden_may_be_nan;  // keys and values that nobody sees, and padding, may hold NaN and
                          // reach nothing; default 0
} shardproof_contract;

// Attention of a block of queries to a block of keys. Head h reads key/value head
// h * kv_heads / heads. With s = scale * q.k: z = s, or softcap * tanh(s / softcap) where softcap
// is not 0; z += bias; P = exp(z - lse) where visible, else 0; lse = log(sum(exp(z))); out = P v.
// A row that sees no key has out 0 and lse -inf.
typedef struct shardproof_attention {
  DLTensor q;                      // [batch, queries, heads, dim], the problem's dtype
  DLTensor k;                      // [batch, keys, kv_heads, dim]
  DLTensor v;                      // [batch, keys, kv_heads, dim_v]
  DLTensor bias;                   // [heads, queries, keys], accumulator type; data NULL: none
  const uint8_t* visible;          // [batch, queries, keys], 0: hidden
  const int64_t* query_positions;  // [queries], in the whole sequence
  const int64_t* key_positions;    // [keys]
  int every_pair_visible;
  double scale;
  double softcap;

  // The forward pass writes these; the backward pass gets their complete values, over all blocks.
  DLTensor out;  // [batch, queries, heads, dim_v], by itself the problem's dtype, else block_out
  DLTensor lse;  // [batch, heads, queries], accumulator type

  // The backward pass only. dS = P * (dout v^T - delta), times the softcap's slope, then dq = scale
  // * (dS k): the scale last, as dS alone may be too small for it.
  DLTensor dout;   // as out of the whole, the problem's dtype
  DLTensor delta;  // [batch, heads, queries], accumulator type: rowsum(dout * out) - dlse
  DLTensor dq;     // this block's share of the gradients, to be written, accumulator type
  DLTensor dk;
  DLTensor dv;
  DLTensor dbias;  // as bias: the sum over the batch; data NULL: none
} shardproof_attention;

// An mlp, or some of its hidden units: z = x w1 + b1; a = activation(z), times (x wg + bg) where
// gated; y = a w2 (+ b2). The backward pass computes again what it needs.
typedef struct shardproof_mlp {
  DLTensor x;       // [tokens, features], the problem's dtype, as are all inputs
  DLTensor w1, b1;  // [features, hidden], [hidden]
  DLTensor wg, bg;  // the same; data NULL: not gated
  DLTensor w2;      // [hidden, outputs]
  DLTensor b2;      // [outputs], added to the sum; data NULL: by others, after a sum over ranks
  DLTensor y;       // [tokens, outputs], accumulator type; the forward pass writes it

  // The backward pass only.
  DLTensor dy;                           // [tokens, outputs], the problem's dtype
  DLTensor dx, dw1, db1, dwg, dbg, dw2;  // to be written, accumulator type
  DLTensor db2;                          // always: column sums of dy
} shardproof_mlp;

typedef struct shardproof_host shardproof_host;

// The rank that a sharded implementation runs on; `host` is what it can do.
typedef struct shardproof_rank {
  const shardproof_host* host;
  const shardproof_problem* problem;
  int32_t index;  // among `ranks`
  int32_t ranks;
  void* own;  // shardproof's
} shardproof_rank;

// What a rank can ask for. `axis`: of the mesh, "cp" or "tp"; peers are numbered along it, and it
// has one rank where the mesh lacks it. All functions with an error return: after one, return it
// (or anything else) at once; the run has ended, often because another rank failed.
struct shardproof_host {
  int (*coordinate)(shardproof_rank* rank, const char* axis);
  int (*size)(shardproof_rank* rank, const char* axis);

  // This rank's shard of a tensor: "q", "k", "v", "bias", "out", "lse", "dout", "dlse", "dq", ...;
  // "x", "w1", ..., "y", "dy", "dx", ... Its shape and strides live as long as the call.
  const char* (*tensor)(shardproof_rank* rank, const char* name, DLTensor* view);

  // Which places of the whole tensor it holds along a dimension.
  const char* (*places)(shardproof_rank* rank, const char* name, int dimension,
                        const int64_t** places, int64_t* count);

  // Whether the mask lets a query see a key, of the whole.
  int (*visible)(shardproof_rank* rank, int64_t batch, int64_t query, int64_t key);

  // What is added to the scaled score of a head, query and key by ALiBi; 0 without.
  double (*alibi)(shardproof_rank* rank, int64_t head, int64_t query, int64_t key);

  // A poisoned tensor that lives to the end of the run under this name, and how to find it again:
  // the only way from the forward to the backward pass.
  const char* (*make)(shardproof_rank* rank, const char* name, shardproof_dtype dtype, int ndim,
                      const int64_t* shape, DLTensor* view);
  const char* (*kept)(shardproof_rank* rank, const char* name, DLTensor* view);

  // Messages. Tensors are dense. Those between two ranks match by tag in the order of posting. What
  // is sent must not change, and what is received is undefined, until wait() returns; one wait a
  // request.
  const char* (*start_send)(shardproof_rank* rank, const char* axis, const DLTensor* data,
                            int target, int tag, int* request);
  const char* (*start_receive)(shardproof_rank* rank, const char* axis, const DLTensor* data,
                               int source, int tag, int* request);
  const char* (*wait)(shardproof_rank* rank, const char* axis, int request);

  // Collectives: in place; sums round each addition to the tensor's dtype. Of all_gather,
  // reduce_scatter and all_to_all an array has a tensor a rank of the axis.
  const char* (*all_reduce)(shardproof_rank* rank, const char* axis, const DLTensor* data);
  const char* (*all_reduce_maximum)(shardproof_rank* rank, const char* axis, const DLTensor* data);
  const char* (*all_gather)(shardproof_rank* rank, const char* axis, const DLTensor* mine,
                            const DLTensor* parts);
  const char* (*reduce_scatter)(shardproof_rank* rank, const char* axis, const DLTensor* parts,
                                const DLTensor* mine);
  const char* (*all_to_all)(shardproof_rank* rank, const char* axis, const DLTensor* sent,
                            const DLTensor* received);
  const char* (*broadcast)(shardproof_rank* rank, const char* axis, const DLTensor* data, int root);
  const char* (*barrier)(shardproof_rank* rank, const char* axis);

  // Points to an MPI_Comm in the MPI world, whose ranks are those of the axis, and on which nobody
  // else communicates meanwhile; NULL in the simulated world.
  const void* (*native)(shardproof_rank* rank, const char* axis);
};

// What a subject can do besides the plainest case. Cases that need more are not drawn for it.
enum {
  SHARDPROOF_SOFTCAP = 1 << 0,
  SHARDPROOF_BIAS = 1 << 1,
  SHARDPROOF_GATED = 1 << 2,
  SHARDPROOF_SINK = 1 << 3  // sharded implementations only
};

// What attention can do only; cases that are drawn for it are made so (masks: --mask).
#define SHARDPROOF_SAME_DIMS 1u     // dim_v = dim
#define SHARDPROOF_SAME_HEADS 2u    // kv_heads = heads
#define SHARDPROOF_SAME_LENGTHS 4u  // keys = queries
#define SHARDPROOF_DIMS_OF_8 8u     // dim and dim_v are multiples of 8

enum {  // where a kernel is placed; 0: everywhere
  SHARDPROOF_ALONE = 1 << 0,
  SHARDPROOF_RING = 1 << 1,
  SHARDPROOF_HEADS = 1 << 2,
  SHARDPROOF_COLUMN_ROW = 1 << 3
};

#define SHARDPROOF_DTYPE(name) (1u << (name))

// Makes a subject a mutant, which `shardproof mutants --plugin` demands that `killer` falsifies.
typedef struct shardproof_fault {
  const char* killer;
  const char* says;  // the fault in a line
} shardproof_fault;

// Fields that are left 0 take the default that is named.
typedef struct shardproof_subject {
  const char* name;     // letters, digits and _
  const char* op;       // the operator
  const char* summary;  // in a line; NULL: none
  uint32_t dtypes;      // SHARDPROOF_DTYPE bits; 0: all
  uint32_t features;    // SHARDPROOF_SOFTCAP, ...; 0: none
  uint32_t limits;      // SHARDPROOF_SAME_DIMS, ...; 0: none
  uint32_t places;      // of a kernel
  int any_strides;      // takes tensors with any strides, also broadcast or far apart ones
  const shardproof_fault* fault;  // NULL: none

  // Sharded implementations: the mesh axes that can cut them, ending with NULL: "cp" tokens and
  // "tp" heads of attention, "tp" hidden units of an mlp or parts of a collective. NULL: one rank.
  const char* const* axes;
  int any_layout;  // tokens may lie as zigzag pairs or stripes along cp, too

  // Changes the promises from the defaults that they come filled with; NULL: leaves them.
  void (*contract)(const shardproof_problem* problem, shardproof_contract* promised);

  // Why it cannot do this problem, or NULL; NULL: it can do all.
  const char* (*unsupported)(const shardproof_problem* problem);

  // One of the three. A kernel without a backward pass is judged with the backward pass of
  // shardproof from its out and lse; its contract must not promise more than the defaults then.
  const char* (*attention_forward)(const shardproof_attention* block);
  const char* (*attention_backward)(const shardproof_attention* block);
  const char* (*mlp_forward)(const shardproof_mlp* units, const shardproof_problem* problem);
  const char* (*mlp_backward)(const shardproof_mlp* units, const shardproof_problem* problem);
  const char* (*sharded_forward)(shardproof_rank* rank);
  const char* (*sharded_backward)(shardproof_rank* rank);
} shardproof_subject;

typedef struct shardproof_plugin {
  uint32_t version;        // SHARDPROOF_PLUGIN_VERSION
  uint32_t subject_bytes;  // sizeof(shardproof_subject)
  uint32_t subject_count;
  const shardproof_subject* subjects;
} shardproof_plugin;

SHARDPROOF_EXPORT const shardproof_plugin* shardproof_plugin_v1(void);
