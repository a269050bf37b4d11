// A kernel of an mlp in plain C++, forward and backward, f32 or f64: judged by itself and for the
// hidden units of one of several ranks.
//
//   c++ -shared -fPIC -O2 -I PREFIX/include mlp.cpp -o libmlp.so
//   shardproof fuzz --plugin=./libmlp.so
#include <shardproof_plugin.h>

#include <cmath>
#include <vector>

namespace {

template <typename T>
T* data(const DLTensor& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

template <typename T>
struct Activated {
  T value;
  T slope;
};

template <typename T>
Activated<T> activate(shardproof_activation activation, T z) {
  const T root_half = T(0.70710678118654752440L);
  switch (activation) {
    case SHARDPROOF_RELU:
      return std::isnan(z) ? Activated<T>{z, z} : z > 0 ? Activated<T>{z, 1} : Activated<T>{0, 0};
    case SHARDPROOF_GELU: {
      const T phi = std::erfc(-z * root_half) / 2;
      const T density = T(0.39894228040143267794L) * std::exp(-z * z / 2);
      return {z * phi, phi + z * density};
    }
    case SHARDPROOF_GELU_TANH: {
      const T c = T(0.79788456080286535588L);
      const T bent = std::tanh(c * (z + T(0.044715L) * z * z * z));
      const T slope = c * (1 + 3 * T(0.044715L) * z * z);
      return {z * (1 + bent) / 2, (1 + bent) / 2 + z * (1 - bent * bent) * slope / 2};
    }
    case SHARDPROOF_SILU: {
      const T share = 1 / (1 + std::exp(-z));
      return {z * share, share * (1 + z * (1 - share))};
    }
  }
  return {};
}

// target [m, n] = a b, element (i, j) of a and b at i * row + j * column.
template <typename T>
struct Matrix {
  const T* elements;
  int64_t row, column;
};
template <typename T>
void multiply(Matrix<T> a, Matrix<T> b, int64_t m, int64_t n, int64_t k, T* target, bool add) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = add ? target[i * n + j] : T(0);
      for (int64_t l = 0; l < k; ++l) {
        sum += a.elements[i * a.row + l * a.column] * b.elements[l * b.row + j * b.column];
      }
      target[i * n + j] = sum;
    }
  }
}

// [tokens, hidden] before and after the activation; up stays empty without a gate.
template <typename T>
struct Hidden {
  std::vector<T> z, up, a, slope;
};

template <typename T>
std::vector<T> linear(const shardproof_mlp& m, const DLTensor& w, const DLTensor& bias) {
  const int64_t tokens = m.x.shape[0], features = m.x.shape[1], hidden = w.shape[1];
  std::vector<T> z(tokens * hidden);
  for (int64_t i = 0; i < tokens * hidden; ++i) z[i] = data<T>(bias)[i % hidden];
  multiply<T>({data<T>(m.x), features, 1}, {data<T>(w), hidden, 1}, tokens, hidden, features,
              z.data(), true);
  return z;
}

template <typename T>
Hidden<T> hidden_units(const shardproof_mlp& m, shardproof_activation activation) {
  Hidden<T> units{linear<T>(m, m.w1, m.b1), {}, {}, {}};
  if (m.wg.data != nullptr) units.up = linear<T>(m, m.wg, m.bg);
  for (std::size_t i = 0; i < units.z.size(); ++i) {
    const Activated<T> activated = activate(activation, units.z[i]);
    units.a.push_back(units.up.empty() ? activated.value : activated.value * units.up[i]);
    units.slope.push_back(activated.slope);
  }
  return units;
}

template <typename T>
void forward(const shardproof_mlp& m, shardproof_activation activation) {
  const int64_t tokens = m.x.shape[0], hidden = m.w1.shape[1], outputs = m.w2.shape[1];
  const Hidden<T> units = hidden_units<T>(m, activation);
  T* y = data<T>(m.y);
  multiply<T>({units.a.data(), hidden, 1}, {data<T>(m.w2), outputs, 1}, tokens, outputs, hidden, y,
              false);
  if (m.b2.data == nullptr) return;
  for (int64_t i = 0; i < tokens * outputs; ++i) y[i] += data<T>(m.b2)[i % outputs];
}

template <typename T>
void column_sums(const T* from, int64_t rows, int64_t columns, T* sums) {
  for (int64_t j = 0; j < columns; ++j) {
    sums[j] = 0;
    for (int64_t i = 0; i < rows; ++i) sums[j] += from[i * columns + j];
  }
}

template <typename T>
void backward(const shardproof_mlp& m, shardproof_activation activation) {
  const int64_t tokens = m.x.shape[0], features = m.x.shape[1];
  const int64_t hidden = m.w1.shape[1], outputs = m.w2.shape[1];
  const Hidden<T> units = hidden_units<T>(m, activation);
  const T* x = data<T>(m.x);
  const T* dy = data<T>(m.dy);
  std::vector<T> dz(tokens * hidden), dup;
  multiply<T>({dy, outputs, 1}, {data<T>(m.w2), 1, outputs}, tokens, hidden, outputs, dz.data(),
              false);
  for (std::size_t i = 0; i < dz.size(); ++i) {
    const T da = dz[i];
    if (!units.up.empty()) dup.push_back(da * activate(activation, units.z[i]).value);
    dz[i] = (units.up.empty() ? da : da * units.up[i]) * units.slope[i];
  }
  multiply<T>({units.a.data(), 1, hidden}, {dy, outputs, 1}, hidden, outputs, tokens,
              data<T>(m.dw2), false);
  column_sums(dy, tokens, outputs, data<T>(m.db2));
  multiply<T>({x, 1, features}, {dz.data(), hidden, 1}, features, hidden, tokens, data<T>(m.dw1),
              false);
  column_sums<T>(dz.data(), tokens, hidden, data<T>(m.db1));
  T* dx = data<T>(m.dx);
  multiply<T>({dz.data(), hidden, 1}, {data<T>(m.w1), 1, hidden}, tokens, features, hidden, dx,
              false);
  if (m.wg.data == nullptr) return;
  multiply<T>({x, 1, features}, {dup.data(), hidden, 1}, features, hidden, tokens, data<T>(m.dwg),
              false);
  column_sums<T>(dup.data(), tokens, hidden, data<T>(m.dbg));
  multiply<T>({dup.data(), hidden, 1}, {data<T>(m.wg), 1, hidden}, tokens, features, hidden, dx,
              true);
}

const char* forward_of(const shardproof_mlp* units, const shardproof_problem* problem) {
  const bool wide = problem->dtype == SHARDPROOF_F64;
  (wide ? forward<double> : forward<float>)(*units, problem->activation);
  return nullptr;
}

const char* backward_of(const shardproof_mlp* units, const shardproof_problem* problem) {
  const bool wide = problem->dtype == SHARDPROOF_F64;
  (wide ? backward<double> : backward<float>)(*units, problem->activation);
  return nullptr;
}

}  // namespace

const shardproof_plugin* shardproof_plugin_v1() {
  static const shardproof_subject subject = [] {
    shardproof_subject made{};
    made.name = "plain_mlp";
    made.op = "mlp";
    made.summary = "loops in the tensors' type";
    made.dtypes = SHARDPROOF_DTYPE(SHARDPROOF_F32) | SHARDPROOF_DTYPE(SHARDPROOF_F64);
    made.features = SHARDPROOF_GATED;
    made.mlp_forward = forward_of;
    made.mlp_backward = backward_of;
    return made;
  }();
  static const shardproof_plugin plugin{SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject), 1,
                                        &subject};
  return &plugin;
}
