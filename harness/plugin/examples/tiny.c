/* The smallest plugin: attention, the forward pass alone, in C.
 *
 *   cc -shared -fPIC -O2 -I PREFIX/include tiny.c -o libtiny.so -lm
 *   shardproof fuzz --plugin=./libtiny.so
 */
#include <math.h>
#include <shardproof_plugin.h>

static const char* forward(const shardproof_attention* a) {
  const int64_t n = a->q.shape[1], heads = a->q.shape[2], dim = a->q.shape[3];
  const int64_t m = a->k.shape[1], kv_heads = a->k.shape[2], dim_v = a->v.shape[3];
  const float *q = a->q.data, *k = a->k.data, *v = a->v.data;
  float *out = a->out.data, *lse = a->lse.data;
  for (int64_t b = 0; b < a->q.shape[0]; ++b)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t row = (b * n + i) * heads + h, g = h * kv_heads / heads;
        float most = -INFINITY, sum = 0; /* online softmax: one pass over the keys */
        for (int64_t d = 0; d < dim_v; ++d) out[row * dim_v + d] = 0;
        for (int64_t j = 0; j < m; ++j) {
          const int64_t key = (b * m + j) * kv_heads + g;
          if (!a->visible[(b * n + i) * m + j]) continue;
          float z = 0;
          for (int64_t d = 0; d < dim; ++d) z += q[row * dim + d] * k[key * dim + d];
          z *= (float)a->scale;
          const float top = z < most ? most : z;
          const float shrink = most == top ? 1 : expf(most - top), p = expf(z - top);
          sum = sum * shrink + p;
          for (int64_t d = 0; d < dim_v; ++d)
            out[row * dim_v + d] = out[row * dim_v + d] * shrink + p * v[key * dim_v + d];
          most = top;
        }
        for (int64_t d = 0; d < dim_v; ++d)
          if (sum != 0) out[row * dim_v + d] /= sum;
        lse[(b * heads + h) * n + i] = most + logf(sum);
      }
  return 0;
}

/* Each key is a tile of its own, so a row is rescaled as often as there are keys. */
static void contract(const shardproof_problem* problem, shardproof_contract* promised) {
  promised->rescales = (int)problem->keys;
}

const shardproof_plugin* shardproof_plugin_v1(void) {
  static const shardproof_subject subjects[] = {{.name = "tiny",
                                                 .op = "attention",
                                                 .dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32),
                                                 .contract = contract,
                                                 .attention_forward = forward}};
  static const shardproof_plugin plugin = {SHARDPROOF_PLUGIN_VERSION, sizeof subjects[0], 1,
                                           subjects};
  return &plugin;
}
