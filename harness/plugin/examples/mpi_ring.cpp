// Ring attention (Liu et al. 2023) over MPI itself, without shardproof's communicator: blocks of
// keys and values, and in the backward pass their gradients, travel from rank to rank.
//
//   mpicxx -shared -fPIC -O2 -I PREFIX/include mpi_ring.cpp -o libmpi_ring.so
//   shardproof fuzz --world=mpi --ranks=4 --plugin=./libmpi_ring.so
#include <mpi.h>
#include <shardproof_plugin.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

struct Failure {
  const char* words;
};
void expect(const char* words) {
  if (words != nullptr) throw Failure{words};
}

float* floats(const DLTensor& tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// A rank's shards and where they stand in the whole.
struct Rank {
  explicit Rank(shardproof_rank* handle) : rank(handle), problem(*handle->problem) {
    ring = *static_cast<const MPI_Comm*>(rank->host->native(rank, "cp"));
    MPI_Comm_size(ring, &size);
    MPI_Comm_rank(ring, &here);
    const int64_t* places = nullptr;
    expect(rank->host->places(rank, "q", 1, &places, &queries));
    query_places.assign(places, places + queries);
  }

  float* get(const char* name) const {
    DLTensor tensor;
    expect(rank->host->tensor(rank, name, &tensor));
    return floats(tensor);
  }
  int64_t query_row(int64_t b, int64_t i, int64_t h) const {
    return (b * queries + i) * problem.heads + h;
  }
  int64_t number(int64_t b, int64_t i, int64_t h) const {  // of lse
    return (b * problem.heads + h) * queries + i;
  }

  shardproof_rank* rank;
  const shardproof_problem& problem;
  MPI_Comm ring;
  int size = 1;
  int here = 0;
  int64_t queries = 0;
  std::vector<int64_t> query_places;
};

// What travels: keys and values [batch, tokens, kv heads, ...] and sums of their gradients.
struct Block {
  std::vector<int64_t> places;
  std::vector<float> k, v, dk, dv;
};

Block own_block(const Rank& rank) {
  const shardproof_problem& p = rank.problem;
  const int64_t* places = nullptr;
  int64_t tokens = 0;
  expect(rank.rank->host->places(rank.rank, "k", 1, &places, &tokens));
  const int64_t rows = p.batch * tokens * p.kv_heads;
  const float* k = rank.get("k");
  const float* v = rank.get("v");
  return {{places, places + tokens},
          {k, k + rows * p.dim},
          {v, v + rows * p.dim_v},
          std::vector<float>(rows * p.dim),
          std::vector<float>(rows * p.dim_v)};
}

template <typename T>
void pass_on(const Rank& rank, std::vector<T>& values) {
  const int next = (rank.here + 1) % rank.size;
  const int previous = (rank.here + rank.size - 1) % rank.size;
  int sent = static_cast<int>(values.size() * sizeof(T));
  int received = 0;
  MPI_Sendrecv(&sent, 1, MPI_INT, next, 0, &received, 1, MPI_INT, previous, 0, rank.ring,
               MPI_STATUS_IGNORE);
  std::vector<T> arrived(received / sizeof(T));
  MPI_Sendrecv(values.data(), sent, MPI_BYTE, next, 1, arrived.data(), received, MPI_BYTE, previous,
               1, rank.ring, MPI_STATUS_IGNORE);
  values = std::move(arrived);
}

// Calls visit(batch, head, query, key, row of the key) for every visible pair with the block.
template <typename Visit>
void for_each_pair(const Rank& rank, const Block& block, Visit&& visit) {
  const shardproof_problem& p = rank.problem;
  const auto keys = static_cast<int64_t>(block.places.size());
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t i = 0; i < rank.queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        if (!rank.rank->host->visible(rank.rank, b, rank.query_places[i], block.places[j]))
          continue;
        for (int64_t h = 0; h < p.heads; ++h) {
          visit(b, h, i, (b * keys + j) * p.kv_heads + h * p.kv_heads / p.heads);
        }
      }
    }
  }
}

float product(const float* a, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
  return sum;
}
void add(float factor, const float* from, int64_t count, float* target) {
  for (int64_t d = 0; d < count; ++d) target[d] += factor * from[d];
}

void forward(const Rank& rank) {
  const shardproof_problem& p = rank.problem;
  const float* q = rank.get("q");
  float* out = rank.get("out");
  float* lse = rank.get("lse");
  const int64_t rows = p.batch * rank.queries * p.heads;
  std::vector<float> most(rows, -std::numeric_limits<float>::infinity()), sum(rows);
  for (int64_t e = 0; e < rows * p.dim_v; ++e) out[e] = 0;
  Block block = own_block(rank);
  for (int step = 0; step < rank.size; ++step) {
    for_each_pair(rank, block, [&](int64_t b, int64_t h, int64_t i, int64_t key) {
      const int64_t row = rank.query_row(b, i, h);
      const float z = static_cast<float>(p.scale) *
                      product(q + row * p.dim, block.k.data() + key * p.dim, p.dim);
      const float top = z < most[row] ? most[row] : z;
      const float shrink = most[row] == top ? 1 : std::exp(most[row] - top);
      const float weight = std::exp(z - top);
      for (int64_t d = 0; d < p.dim_v; ++d) out[row * p.dim_v + d] *= shrink;
      add(weight, block.v.data() + key * p.dim_v, p.dim_v, out + row * p.dim_v);
      sum[row] = sum[row] * shrink + weight;
      most[row] = top;
    });
    if (step + 1 == rank.size) break;
    pass_on(rank, block.places);
    pass_on(rank, block.k);
    pass_on(rank, block.v);
  }
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t i = 0; i < rank.queries; ++i) {
      for (int64_t h = 0; h < p.heads; ++h) {
        const int64_t row = rank.query_row(b, i, h);
        for (int64_t d = 0; d < p.dim_v && sum[row] != 0; ++d) out[row * p.dim_v + d] /= sum[row];
        lse[rank.number(b, i, h)] = most[row] + std::log(sum[row]);
      }
    }
  }
}

void backward(const Rank& rank) {
  const shardproof_problem& p = rank.problem;
  const float *q = rank.get("q"), *out = rank.get("out"), *lse = rank.get("lse");
  const float *dout = rank.get("dout"), *dlse = rank.get("dlse");
  float* dq = rank.get("dq");
  const auto scale = static_cast<float>(p.scale);
  for (int64_t e = 0; e < p.batch * rank.queries * p.heads * p.dim; ++e) dq[e] = 0;
  Block block = own_block(rank);
  for (int step = 0; step < rank.size; ++step) {
    std::vector<float> dk_share(block.dk.size());
    for_each_pair(rank, block, [&](int64_t b, int64_t h, int64_t i, int64_t key) {
      const int64_t row = rank.query_row(b, i, h);
      const int64_t number = rank.number(b, i, h);
      const float* k = block.k.data() + key * p.dim;
      const float* upstream = dout + row * p.dim_v;
      const float weight = std::exp(scale * product(q + row * p.dim, k, p.dim) - lse[number]);
      const float delta = product(upstream, out + row * p.dim_v, p.dim_v) - dlse[number];
      const float dp = product(upstream, block.v.data() + key * p.dim_v, p.dim_v);
      const float ds = weight * (dp - delta);
      add(ds, k, p.dim, dq + row * p.dim);
      add(ds, q + row * p.dim, p.dim, dk_share.data() + key * p.dim);
      add(weight, upstream, p.dim_v, block.dv.data() + key * p.dim_v);
    });
    add(scale, dk_share.data(), static_cast<int64_t>(dk_share.size()), block.dk.data());
    pass_on(rank, block.places);
    for (auto* each : {&block.k, &block.v, &block.dk, &block.dv}) pass_on(rank, *each);
  }
  for (int64_t e = 0; e < p.batch * rank.queries * p.heads * p.dim; ++e) dq[e] *= scale;
  float* dk = rank.get("dk");
  float* dv = rank.get("dv");
  for (std::size_t e = 0; e < block.dk.size(); ++e) dk[e] = block.dk[e];
  for (std::size_t e = 0; e < block.dv.size(); ++e) dv[e] = block.dv[e];
}

template <void (*pass)(const Rank&)>
const char* run(shardproof_rank* rank) {
  try {
    pass(Rank(rank));
  } catch (const Failure& failure) {
    return failure.words;
  }
  return nullptr;
}

const char* unsupported(const shardproof_problem* problem) {
  return std::string(problem->world) == "mpi" ? nullptr : "talks to MPI itself: --world=mpi";
}

// Each key is a tile of its own, so a row is rescaled as often as there are keys.
void contract(const shardproof_problem* problem, shardproof_contract* promised) {
  promised->rescales = static_cast<int>(problem->keys);
}

}  // namespace

const shardproof_plugin* shardproof_plugin_v1() {
  static const char* const axes[] = {"cp", nullptr};
  static const shardproof_subject subject = [] {
    shardproof_subject made{};
    made.name = "mpi_ring";
    made.op = "attention";
    made.summary = "ring attention over MPI itself";
    made.dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32);
    made.axes = axes;
    made.any_layout = 1;
    made.contract = contract;
    made.unsupported = unsupported;
    made.sharded_forward = run<forward>;
    made.sharded_backward = run<backward>;
    return made;
  }();
  static const shardproof_plugin plugin{SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject), 1,
                                        &subject};
  return &plugin;
}
