// A kernel of attention in CUDA, the forward pass alone: a thread a row, over all its keys. Tensors
// come in the memory of the host and are copied to and fro.
//
//   nvcc -shared -Xcompiler -fPIC -I PREFIX/include cuda_attention.cu -o libcuda_attention.so
//   shardproof fuzz --plugin=./libcuda_attention.so
#include <shardproof_plugin.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

struct Shape {
  int64_t batch, queries, heads, dim, keys, kv_heads, dim_v;
  float scale;
};

__global__ void attend(Shape s, const float* q, const float* k, const float* v,
                       const unsigned char* visible, float* out, float* lse) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= s.batch * s.queries * s.heads) return;
  const int64_t h = row % s.heads;
  const int64_t i = row / s.heads % s.queries;
  const int64_t b = row / s.heads / s.queries;
  float* sums = out + row * s.dim_v;
  float most = -INFINITY;
  float sum = 0;
  for (int64_t d = 0; d < s.dim_v; ++d) sums[d] = 0;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!visible[(b * s.queries + i) * s.keys + j]) continue;
    const int64_t key = (b * s.keys + j) * s.kv_heads + h * s.kv_heads / s.heads;
    float z = 0;
    for (int64_t d = 0; d < s.dim; ++d) z += q[row * s.dim + d] * k[key * s.dim + d];
    z *= s.scale;
    const float top = z < most ? most : z;
    const float shrink = most == top ? 1 : expf(most - top);
    const float weight = expf(z - top);
    for (int64_t d = 0; d < s.dim_v; ++d) {
      sums[d] = sums[d] * shrink + weight * v[key * s.dim_v + d];
    }
    sum = sum * shrink + weight;
    most = top;
  }
  for (int64_t d = 0; d < s.dim_v && sum != 0; ++d) sums[d] /= sum;
  lse[(b * s.heads + h) * s.queries + i] = most + logf(sum);
}

// Memory of the GPU for one call; what goes wrong is kept.
class Arena {
 public:
  ~Arena() {
    for (void* each : owned_) cudaFree(each);
  }

  template <typename T>
  T* room(int64_t count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)));
    owned_.push_back(memory);
    return static_cast<T*>(memory);
  }
  template <typename T>
  T* copy_of(const void* host, int64_t count) {
    T* memory = room<T>(count);
    check(cudaMemcpy(memory, host, count * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
  }
  void fetch(void* host, const float* memory, int64_t count) {  // waits for the kernel
    check(cudaMemcpy(host, memory, count * sizeof(float), cudaMemcpyDeviceToHost));
  }
  void check(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  const char* error() const { return error_ == cudaSuccess ? nullptr : cudaGetErrorString(error_); }

 private:
  std::vector<void*> owned_;
  cudaError_t error_ = cudaSuccess;
};

const char* forward(const shardproof_attention* a) {
  const Shape s{a->q.shape[0], a->q.shape[1], a->q.shape[2], a->q.shape[3],
                a->k.shape[1], a->k.shape[2], a->v.shape[3], static_cast<float>(a->scale)};
  const int64_t rows = s.batch * s.queries * s.heads;
  const int64_t keys = s.batch * s.keys * s.kv_heads;
  Arena arena;
  const float* q = arena.copy_of<float>(a->q.data, rows * s.dim);
  const float* k = arena.copy_of<float>(a->k.data, keys * s.dim);
  const float* v = arena.copy_of<float>(a->v.data, keys * s.dim_v);
  const auto* visible = arena.copy_of<unsigned char>(a->visible, s.batch * s.queries * s.keys);
  float* out = arena.room<float>(rows * s.dim_v);
  float* lse = arena.room<float>(rows);
  if (arena.error() != nullptr) return arena.error();
  attend<<<static_cast<unsigned>((rows + 127) / 128), 128>>>(s, q, k, v, visible, out, lse);
  arena.check(cudaGetLastError());
  arena.fetch(a->out.data, out, rows * s.dim_v);
  arena.fetch(a->lse.data, lse, rows);
  return arena.error();
}

// Each key is a tile of its own, so a row is rescaled as often as there are keys.
void contract(const shardproof_problem* problem, shardproof_contract* promised) {
  promised->rescales = static_cast<int>(problem->keys);
}

}  // namespace

const shardproof_plugin* shardproof_plugin_v1() {
  static const shardproof_subject subject = [] {
    shardproof_subject made{};
    made.name = "cuda_attention";
    made.op = "attention";
    made.summary = "a thread a row";
    made.dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32);
    made.contract = contract;
    made.attention_forward = forward;
    return made;
  }();
  static const shardproof_plugin plugin{SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject), 1,
                                        &subject};
  return &plugin;
}
