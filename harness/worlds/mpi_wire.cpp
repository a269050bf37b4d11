#include "harness/worlds/mpi_wire.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint64_t);
constexpr std::uint64_t kLargest = std::uint64_t{1} << 36;  // longer ones are damage

// Messages are small and wait for answers.
void send_at_once(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::uint64_t length_of(const std::string& unread) {
  std::uint64_t length = 0;
  std::memcpy(&length, unread.data(), kHeader);
  return length;
}

}  // namespace

Wire& Wire::operator=(Wire&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(unread_, other.unread_);
  return *this;
}

void Wire::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

bool Wire::send(const std::string& bytes) {
  const std::uint64_t length = bytes.size();
  std::string message(reinterpret_cast<const char*>(&length), kHeader);
  message += bytes;
  for (std::string_view rest = message; !rest.empty();) {
    const ssize_t count = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool Wire::read_once(int flags) {
  std::array<char, 1 << 16> chunk;
  for (;;) {
    const ssize_t count = recv(descriptor_, chunk.data(), chunk.size(), flags);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 && errno == EAGAIN;
    unread_.append(chunk.data(), static_cast<std::size_t>(count));
    return unread_.size() < kHeader || length_of(unread_) <= kLargest;
  }
}

bool Wire::receive(std::string& message) {
  while (!take(message)) {
    if (!read_once(0)) return false;
  }
  return true;
}

bool Wire::read_available() {
  for (;;) {
    const std::size_t before = unread_.size();
    if (!read_once(MSG_DONTWAIT)) return false;
    if (unread_.size() == before) return true;
  }
}

bool Wire::take(std::string& message) {
  if (unread_.size() < kHeader) return false;
  const std::uint64_t length = length_of(unread_);
  if (unread_.size() - kHeader < length) return false;
  message = unread_.substr(kHeader, length);
  unread_.erase(0, kHeader + length);
  return true;
}

Listener::Listener(const std::string& address) {
  descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(address.empty() ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof place;
  auto* generic = reinterpret_cast<sockaddr*>(&place);
  constexpr int kBacklog = 512;
  if (descriptor_ < 0 || bind(descriptor_, generic, size) != 0 ||
      listen(descriptor_, kBacklog) != 0 || getsockname(descriptor_, generic, &size) != 0) {
    throw Error(fmt::format("cannot listen for ranks: {}", std::strerror(errno)));
  }
  address_ = fmt::format("{}:{}", address.empty() ? "127.0.0.1" : address, ntohs(place.sin_port));
}

Listener::~Listener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Wire Listener::accept() {
  const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) send_at_once(descriptor);
  return Wire(descriptor);
}

Wire connect_to(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) throw Error(fmt::format("'{}' is not host:port", address));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(),
                               &hints, &found);
  if (code != 0) throw Error(fmt::format("{}: {}", address, gai_strerror(code)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Wire wire(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(wire.descriptor(), found->ai_addr, found->ai_addrlen) != 0) {
    throw Error(fmt::format("cannot connect to {}: {}", address, std::strerror(errno)));
  }
  send_at_once(wire.descriptor());
  return wire;
}

}  // namespace shardproof
