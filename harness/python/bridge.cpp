// The plugin between shardproof and a Python function: it hands tensors over a socket to a Python
// process, which serve.py describes, and waits for what comes back. A Python process that ends is
// an error of the call; the next call asks for another one.
#include <shardproof_plugin.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr const char* kSocket = "SHARDPROOF_PYTHON";     // where Python listens
constexpr const char* kLink = "SHARDPROOF_PYTHON_LINK";  // "process descriptor" of a connection

enum Kind : std::uint32_t { kDescribe, kForward, kBackward };

// The connection of this process, which the copies of this library share by the environment: all
// simulated ranks ask one Python process. A connection from before a fork belongs to the parent.
class Link {
 public:
  Link() {
    int process = 0;
    const char* known = std::getenv(kLink);
    if (known != nullptr && std::sscanf(known, "%d %d", &process, &socket_) == 2 &&
        process == getpid()) {
      return;
    }
    connect_anew();
  }

  // Sends a request and returns the answer; throws where Python has ended or complains.
  std::string ask(Kind kind, const std::string& request) const {
    const std::uint32_t head[2] = {kind, static_cast<std::uint32_t>(request.size())};
    std::uint32_t answer[2] = {};
    std::string text;
    if (send_all(head, sizeof head) && send_all(request.data(), request.size()) &&
        receive_all(answer, sizeof answer)) {
      text.resize(answer[1]);
      if (receive_all(text.data(), text.size())) {
        if (answer[0] == 0) return text;
        throw std::runtime_error(text);
      }
    }
    close(socket_);
    unsetenv(kLink);
    throw std::runtime_error("the Python process ended");
  }

 private:
  void connect_anew() {
    const char* path = std::getenv(kSocket);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) {
      throw std::runtime_error("is loaded by the Python package shardproof only");
    }
    std::strcpy(address.sun_path, path);
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot reach the Python process");
    }
    const std::string known = std::to_string(getpid()) + " " + std::to_string(socket_);
    setenv(kLink, known.c_str(), 1);
  }

  bool send_all(const void* data, std::size_t bytes) const {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t sent = send(socket_, from, bytes, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      from += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool receive_all(void* data, std::size_t bytes) const {
    char* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t received = recv(socket_, to, bytes, 0);
      if (received <= 0) return false;
      to += received;
      bytes -= static_cast<std::size_t>(received);
    }
    return true;
  }

  int socket_ = -1;
};

// A request: numbers and tensors in an order that both sides know.
class Request {
 public:
  template <typename T>
  void put(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  // Its code and bits of dtype, its extents, and where `with_data` its elements; dense.
  void put(const DLTensor& tensor, bool with_data = true) {
    put(static_cast<std::int32_t>(tensor.data == nullptr ? -1 : tensor.ndim));
    if (tensor.data == nullptr) return;
    put(static_cast<std::int32_t>(tensor.dtype.code));
    put(static_cast<std::int32_t>(tensor.dtype.bits));
    for (int d = 0; d < tensor.ndim; ++d) put(tensor.shape[d]);
    if (with_data) bytes_.append(memory(tensor), size(tensor));
  }
  void put(const void* data, std::size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
  }

  static char* memory(const DLTensor& tensor) {
    return static_cast<char*>(tensor.data) + tensor.byte_offset;
  }
  static std::size_t size(const DLTensor& tensor) {
    std::size_t bytes = tensor.dtype.bits / 8;
    for (int d = 0; d < tensor.ndim; ++d) bytes *= static_cast<std::size_t>(tensor.shape[d]);
    return bytes;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Copies an answer into the tensors that it consists of.
void take(const std::string& answer, const std::vector<DLTensor>& tensors) {
  std::size_t at = 0;
  for (const DLTensor& each : tensors) at += each.data == nullptr ? 0 : Request::size(each);
  if (at != answer.size()) throw std::runtime_error("the answer has another size than the tensors");
  at = 0;
  for (const DLTensor& each : tensors) {
    if (each.data == nullptr) continue;
    std::memcpy(Request::memory(each), answer.data() + at, Request::size(each));
    at += Request::size(each);
  }
}

// The words of the last error live until the next one.
template <typename Action>
const char* guarded(Action&& action) {
  static std::string words;
  try {
    action();
    return nullptr;
  } catch (const std::exception& error) {
    words = error.what();
  }
  return words.c_str();
}

Request attention(const shardproof_attention& a) {
  Request request;
  request.put(a.scale);
  request.put(a.softcap);
  for (const DLTensor& each : {a.q, a.k, a.v, a.bias}) request.put(each);
  const auto pairs = a.q.shape[0] * a.q.shape[1] * a.k.shape[1];
  request.put(a.visible, static_cast<std::size_t>(pairs));
  request.put(a.query_positions, static_cast<std::size_t>(a.q.shape[1]) * sizeof(std::int64_t));
  request.put(a.key_positions, static_cast<std::size_t>(a.k.shape[1]) * sizeof(std::int64_t));
  return request;
}

const char* attention_forward(const shardproof_attention* a) {
  return guarded([&] {
    Request request = attention(*a);
    for (const DLTensor& each : {a->out, a->lse}) request.put(each, false);
    take(Link().ask(kForward, request.bytes()), {a->out, a->lse});
  });
}

const char* attention_backward(const shardproof_attention* a) {
  return guarded([&] {
    Request request = attention(*a);
    for (const DLTensor& each : {a->out, a->lse, a->dout, a->delta}) request.put(each);
    for (const DLTensor& each : {a->dq, a->dk, a->dv, a->dbias}) request.put(each, false);
    take(Link().ask(kBackward, request.bytes()), {a->dq, a->dk, a->dv, a->dbias});
  });
}

Request mlp(const shardproof_mlp& m, const shardproof_problem& problem) {
  Request request;
  request.put(static_cast<std::int32_t>(problem.activation));
  for (const DLTensor& each : {m.x, m.w1, m.b1, m.wg, m.bg, m.w2, m.b2}) request.put(each);
  return request;
}

const char* mlp_forward(const shardproof_mlp* m, const shardproof_problem* problem) {
  return guarded([&] {
    Request request = mlp(*m, *problem);
    request.put(m->y, false);
    take(Link().ask(kForward, request.bytes()), {m->y});
  });
}

const char* mlp_backward(const shardproof_mlp* m, const shardproof_problem* problem) {
  return guarded([&] {
    Request request = mlp(*m, *problem);
    request.put(m->dy);
    const std::vector<DLTensor> written = {m->dx, m->dw1, m->db1, m->dwg, m->dbg, m->dw2, m->db2};
    for (const DLTensor& each : written) request.put(each, false);
    take(Link().ask(kBackward, request.bytes()), written);
  });
}

// What Python says of its function, by key; read when the library is loaded.
std::map<std::string, std::string>& description() {
  static std::map<std::string, std::string> known;
  return known;
}

void contract(const shardproof_problem* problem, shardproof_contract* promised) {
  const std::map<std::string, shardproof_dtype shardproof_contract::*> roundings{
      {"accumulator", &shardproof_contract::accumulator},
      {"elementwise", &shardproof_contract::elementwise},
      {"score", &shardproof_contract::score},
      {"probability", &shardproof_contract::probability},
      {"score_gradient", &shardproof_contract::score_gradient},
      {"block_out", &shardproof_contract::block_out},
      {"middle", &shardproof_contract::middle},
  };
  const char* const names[] = {"f64", "f32", "tf32", "bf16", "f16"};
  for (const auto& [key, value] : description()) {
    const auto rounding = roundings.find(key);
    for (int type = 0; rounding != roundings.end() && type < 5; ++type) {
      if (value == names[type]) promised->*(rounding->second) = shardproof_dtype(type);
    }
    const bool by_keys = value == "keys";
    if (key == "rescales") {
      promised->rescales = by_keys ? static_cast<int>(problem->keys) : std::atoi(value.c_str());
    }
    if (key == "hidden_may_be_nan") promised->hidden_may_be_nan = value == "1";
    if (key == "repeatable") promised->repeatable = value == "1";
  }
}

}  // namespace

const shardproof_plugin* shardproof_plugin_v1() {
  static shardproof_subject subject{};
  static const shardproof_plugin plugin{SHARDPROOF_PLUGIN_VERSION, sizeof subject, 1, &subject};
  std::istringstream lines(Link().ask(kDescribe, ""));
  auto& known = description();
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    known[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const auto number = [&](const char* key) {
    return static_cast<std::uint32_t>(std::strtoul(known[key].c_str(), nullptr, 10));
  };
  subject.name = known["name"].c_str();
  subject.op = known["op"].c_str();
  subject.summary = known["summary"].c_str();
  subject.dtypes = number("dtypes");
  subject.features = number("features");
  subject.places = number("places");
  subject.contract = contract;
  const bool has_backward = number("backward") != 0;
  if (known["op"] == "attention") {
    subject.attention_forward = attention_forward;
    subject.attention_backward = has_backward ? attention_backward : nullptr;
  } else {
    subject.mlp_forward = mlp_forward;
    subject.mlp_backward = has_backward ? mlp_backward : nullptr;
  }
  return &plugin;
}
