// Server: the Python process that runs the functions of a plugin, and the memory that it shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/plugin/shardproof_plugin.h"

namespace shardproof_python {

using Json = nlohmann::json;

// Throws where a function of shardproof or of Python returned an error.
inline void fail_with(const char* error) {
  if (error != nullptr) throw std::runtime_error(error);
}

class Server {
 public:
  static constexpr std::size_t kAlign = 64;

  // `manifest`: which interpreter to start, with which arguments.
  explicit Server(const Json& manifest) : manifest_(manifest) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The shared memory that a tensor takes.
  static std::size_t room(const DLTensor& tensor);

  // Makes room for the tensors of one request.
  void start_request(std::size_t bytes);

  // Adds a dense tensor with its values to the request; one that is to be written brings poison.
  void put(const std::string& name, const DLTensor& tensor, Json& request);

  // Adds room for elements of `size` bytes, and returns it.
  std::byte* put(const std::string& name, const std::string& dtype,
                 const std::vector<std::int64_t>& shape, std::size_t size, Json& request);

  // Sends the request and waits for the answer. Throws what Python raised, or that it died.
  void converse(const Json& request);

  // Takes over what Python made of a tensor of the request; also of inputs, which it must not
  // change.
  void get(const std::string& name, const DLTensor& tensor, const Json& request) const;

 private:
  void start();
  void stop();
  std::string obituary();
  void send(const std::string& text) const;
  std::string receive() const;

  const Json& manifest_;
  int process_ = -1;
  int socket_ = -1;
  int memory_ = -1;  // file
  std::byte* shared_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace shardproof_python
