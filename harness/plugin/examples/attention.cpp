// A kernel of attention in plain f32 C++, forward and backward, and the same with a fault that
// kernels on GPUs do have: its lse is to base 2, since it computes with exp2. shardproof judges
// both by themselves, as the block of a ring and for the heads of a rank:
//
//   c++ -shared -fPIC -O2 -I PREFIX/include attention.cpp -o libattention.so
//   shardproof fuzz --plugin=./libattention.so
//   shardproof mutants --plugin=./libattention.so --only=attention_in_base_2@ring
#include <shardproof_plugin.h>

#include <cmath>
#include <limits>
#include <vector>

namespace {

// The extents of a block and the rows of its dense tensors.
struct Block {
  explicit Block(const shardproof_attention& block)
      : a(block),
        batches(a.q.shape[0]),
        queries(a.q.shape[1]),
        heads(a.q.shape[2]),
        dim(a.q.shape[3]),
        keys(a.k.shape[1]),
        kv_heads(a.k.shape[2]),
        dim_v(a.v.shape[3]) {}

  static float* data(const DLTensor& tensor) {
    return reinterpret_cast<float*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
  }
  // Of a [batch, tokens, heads, width] tensor.
  static float* row(const DLTensor& tensor, int64_t b, int64_t token, int64_t head) {
    const int64_t* shape = tensor.shape;
    return data(tensor) + ((b * shape[1] + token) * shape[2] + head) * shape[3];
  }
  // Of a [batch, heads, queries] tensor.
  float& number(const DLTensor& tensor, int64_t b, int64_t h, int64_t i) const {
    return data(tensor)[(b * heads + h) * queries + i];
  }
  int64_t kv_head(int64_t h) const { return h * kv_heads / heads; }
  bool visible(int64_t b, int64_t i, int64_t j) const {
    return a.visible[(b * queries + i) * keys + j] != 0;
  }

  // The logit, and the derivative of the softcap.
  float logit(int64_t b, int64_t h, int64_t i, int64_t j, float* slope) const {
    const float* q = row(a.q, b, i, h);
    const float* k = row(a.k, b, j, kv_head(h));
    float z = 0;
    for (int64_t d = 0; d < dim; ++d) z += q[d] * k[d];
    z *= static_cast<float>(a.scale);
    *slope = 1;
    if (a.softcap != 0) {
      const float cap = static_cast<float>(a.softcap);
      const float bent = std::tanh(z / cap);
      z = cap * bent;
      *slope = 1 - bent * bent;
    }
    if (a.bias.data != nullptr) z += data(a.bias)[(h * queries + i) * keys + j];
    return z;
  }

  const shardproof_attention& a;
  int64_t batches, queries, heads, dim, keys, kv_heads, dim_v;
};

// One row: P without its normaliser, whose logarithm it returns.
float softmax_row(const Block& block, int64_t b, int64_t h, int64_t i, std::vector<float>& p) {
  const float none = -std::numeric_limits<float>::infinity();
  float most = none;
  float slope = 0;
  for (int64_t j = 0; j < block.keys; ++j) {
    p[j] = block.visible(b, i, j) ? block.logit(b, h, i, j, &slope) : none;
    if (p[j] > most || std::isnan(p[j])) most = p[j];
  }
  if (most == none) return none;
  float sum = 0;
  for (float& each : p) sum += each = each == none ? 0 : std::exp(each - most);
  for (float& each : p) each /= sum;
  return most + std::log(sum);
}

template <bool kBaseTwo>
const char* forward(const shardproof_attention* attention) {
  const Block block(*attention);
  std::vector<float> p(block.keys);
  for (int64_t b = 0; b < block.batches; ++b) {
    for (int64_t h = 0; h < block.heads; ++h) {
      for (int64_t i = 0; i < block.queries; ++i) {
        const float lse = softmax_row(block, b, h, i, p);
        float* out = Block::row(attention->out, b, i, h);
        for (int64_t d = 0; d < block.dim_v; ++d) out[d] = 0;
        for (int64_t j = 0; j < block.keys; ++j) {
          if (!block.visible(b, i, j)) continue;
          const float* v = Block::row(attention->v, b, j, block.kv_head(h));
          for (int64_t d = 0; d < block.dim_v; ++d) out[d] += p[j] * v[d];
        }
        const float log2e = 1.44269504f;
        block.number(attention->lse, b, h, i) = kBaseTwo ? lse * log2e : lse;
      }
    }
  }
  return nullptr;
}

template <typename Change>
void change(const DLTensor& tensor, Change&& to) {
  int64_t count = tensor.data == nullptr ? 0 : 1;
  for (int d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  float* data = Block::data(tensor);
  for (int64_t i = 0; i < count; ++i) data[i] = to(data[i]);
}

// What one visible pair adds to the gradients.
void backward_pair(const Block& block, int64_t b, int64_t h, int64_t i, int64_t j) {
  const shardproof_attention& a = block.a;
  const int64_t g = block.kv_head(h);
  float slope = 0;
  const float p = std::exp(block.logit(b, h, i, j, &slope) - block.number(a.lse, b, h, i));
  const float* dout = Block::row(a.dout, b, i, h);
  const float* v = Block::row(a.v, b, j, g);
  float dp = 0;
  for (int64_t d = 0; d < block.dim_v; ++d) dp += dout[d] * v[d];
  const float dz = p * (dp - block.number(a.delta, b, h, i));
  if (a.dbias.data != nullptr) {
    Block::data(a.dbias)[(h * block.queries + i) * block.keys + j] += dz;
  }
  const float ds = dz * slope;  // the scale comes last: before, it might take small ones to 0
  const float* q = Block::row(a.q, b, i, h);
  const float* k = Block::row(a.k, b, j, g);
  float* dq = Block::row(a.dq, b, i, h);
  float* dk = Block::row(a.dk, b, j, g);
  float* dv = Block::row(a.dv, b, j, g);
  for (int64_t d = 0; d < block.dim; ++d) dq[d] += ds * k[d];
  for (int64_t d = 0; d < block.dim; ++d) dk[d] += ds * q[d];
  for (int64_t d = 0; d < block.dim_v; ++d) dv[d] += p * dout[d];
}

const char* backward(const shardproof_attention* attention) {
  const Block block(*attention);
  for (const DLTensor& each : {attention->dq, attention->dk, attention->dv, attention->dbias}) {
    change(each, [](float) { return 0.0f; });
  }
  for (int64_t b = 0; b < block.batches; ++b) {
    for (int64_t h = 0; h < block.heads; ++h) {
      for (int64_t i = 0; i < block.queries; ++i) {
        for (int64_t j = 0; j < block.keys; ++j) {
          if (block.visible(b, i, j)) backward_pair(block, b, h, i, j);
        }
      }
    }
  }
  const float scale = static_cast<float>(attention->scale);
  change(attention->dq, [=](float sum) { return scale * sum; });
  change(attention->dk, [=](float sum) { return scale * sum; });
  return nullptr;
}

// Keys that nobody sees are never read, so they may be NaN.
void contract(const shardproof_problem*, shardproof_contract* promised) {
  promised->hidden_may_be_nan = 1;
}

shardproof_subject described(const char* name, const char* summary) {
  shardproof_subject subject{};
  subject.name = name;
  subject.op = "attention";
  subject.summary = summary;
  subject.dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32);
  subject.features = SHARDPROOF_SOFTCAP | SHARDPROOF_BIAS;
  subject.contract = contract;
  subject.attention_forward = forward<false>;
  subject.attention_backward = backward;
  return subject;
}

}  // namespace

const shardproof_plugin* shardproof_plugin_v1() {
  static const shardproof_fault fault{"matches_reference", "lse is to base 2"};
  static const shardproof_subject correct = described("plain_attention", "loops in f32");
  static const shardproof_subject wrong = [] {
    shardproof_subject subject = described("attention_in_base_2", "loops in f32, lse to base 2");
    subject.attention_forward = forward<true>;
    subject.fault = &fault;
    return subject;
  }();
  static const shardproof_subject subjects[] = {correct, wrong};
  static const shardproof_plugin plugin{SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject), 2,
                                        subjects};
  return &plugin;
}
