#include "harness/python/bridge/server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace shardproof_python {
namespace {

std::runtime_error failed(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

std::size_t elements_of(const DLTensor& tensor) {
  std::size_t elements = 1;
  for (int d = 0; d < tensor.ndim; ++d) elements *= static_cast<std::size_t>(tensor.shape[d]);
  return elements;
}

std::size_t bytes_of(const DLTensor& tensor) { return elements_of(tensor) * tensor.dtype.bits / 8; }

std::size_t aligned(std::size_t bytes) {
  return (bytes + Server::kAlign - 1) / Server::kAlign * Server::kAlign;
}

std::string name_of(const DLDataType& type) {
  if (type.code == kDLBfloat) return "bf16";
  return "f" + std::to_string(type.bits);
}

std::byte* data_of(const DLTensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

Server::~Server() { stop(); }

std::size_t Server::room(const DLTensor& tensor) { return aligned(bytes_of(tensor)); }

void Server::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw failed("no socket");
  socket_ = ends[0];
  const int theirs = dup(ends[1]);  // this one goes with the new process
  close(ends[1]);
  memory_ = memfd_create("shardproof", 0);
  if (theirs < 0 || memory_ < 0) throw failed("no shared memory");
  std::vector<std::string> words{manifest_.at("interpreter"), "-m", "shardproof._serve",
                                 std::to_string(theirs), std::to_string(memory_)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      posix_spawn(&process_, arguments[0], nullptr, nullptr, arguments.data(), environ);
  close(theirs);
  fcntl(memory_, F_SETFD, FD_CLOEXEC);
  if (error != 0) {
    process_ = -1;
    stop();
    throw std::runtime_error(words[0] + " cannot be started: " + std::strerror(error));
  }
}

void Server::stop() {
  if (shared_ != nullptr) munmap(shared_, capacity_);
  if (socket_ >= 0) close(socket_);
  if (memory_ >= 0) close(memory_);
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  shared_ = nullptr;
  socket_ = memory_ = process_ = -1;
  capacity_ = 0;
}

// How the process ended that does not answer any more.
std::string Server::obituary() {
  int status = 0;
  std::string text = "the Python process is gone";
  if (process_ > 0 && waitpid(process_, &status, 0) == process_) {
    text = WIFSIGNALED(status)
               ? "the Python process died of signal " + std::to_string(WTERMSIG(status))
               : "the Python process exited with " + std::to_string(WEXITSTATUS(status));
  }
  process_ = -1;
  stop();
  return text;
}

void Server::start_request(std::size_t bytes) {
  if (process_ < 0) start();
  used_ = 0;
  if (bytes <= capacity_) return;
  if (shared_ != nullptr) munmap(shared_, capacity_);
  capacity_ = std::max<std::size_t>(2 * bytes, 1 << 16);
  if (ftruncate(memory_, static_cast<off_t>(capacity_)) != 0) throw failed("no shared memory");
  void* mapped = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  if (mapped == MAP_FAILED) throw failed("no shared memory");
  shared_ = static_cast<std::byte*>(mapped);
}

std::byte* Server::put(const std::string& name, const std::string& dtype,
                       const std::vector<std::int64_t>& shape, std::size_t size, Json& request) {
  std::size_t bytes = size;
  for (std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  std::byte* const at = shared_ + used_;
  request["tensors"][name] = {{"dtype", dtype}, {"shape", shape}, {"offset", used_}};
  request["capacity"] = capacity_;
  used_ = aligned(used_ + bytes);
  return at;
}

void Server::put(const std::string& name, const DLTensor& tensor, Json& request) {
  const std::vector<std::int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  std::byte* const at = put(name, name_of(tensor.dtype), shape, tensor.dtype.bits / 8, request);
  if (bytes_of(tensor) > 0) std::memcpy(at, data_of(tensor), bytes_of(tensor));
}

void Server::get(const std::string& name, const DLTensor& tensor, const Json& request) const {
  const std::size_t offset = request.at("tensors").at(name).at("offset");
  const std::size_t bytes = bytes_of(tensor);
  if (bytes == 0 || std::memcmp(data_of(tensor), shared_ + offset, bytes) == 0) return;
  std::memcpy(data_of(tensor), shared_ + offset, bytes);
}

void Server::converse(const Json& request) {
  try {
    send(request.dump());
    const Json answer = Json::parse(receive());
    if (answer.contains("error")) throw std::runtime_error(answer.at("error").get<std::string>());
  } catch (const std::ios_base::failure&) {
    throw std::runtime_error(obituary());
  }
}

// A length in eight bytes, then the text.
void Server::send(const std::string& text) const {
  const std::uint64_t size = text.size();
  std::string message(reinterpret_cast<const char*>(&size), sizeof size);
  message += text;
  for (std::size_t at = 0; at < message.size();) {
    const ssize_t count = ::send(socket_, message.data() + at, message.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::ios_base::failure("gone");
    at += static_cast<std::size_t>(count);
  }
}

std::string Server::receive() const {
  const auto read_all = [&](char* to, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t count = read(socket_, to + at, bytes - at);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw std::ios_base::failure("gone");
      at += static_cast<std::size_t>(count);
    }
  };
  std::uint64_t size = 0;
  read_all(reinterpret_cast<char*>(&size), sizeof size);
  std::string text(size, '\0');
  read_all(text.data(), size);
  return text;
}

}  // namespace shardproof_python
