// Wire: whole messages between the MPI world and its ranks over TCP, each its length (8 bytes) and
// its bytes. It is apart from MPI, so that whatever happens to the ranks' communication, what is
// known about them still arrives. A closed or damaged connection looks like one whose other side is
// gone.
#pragma once

#include <string>
#include <utility>

namespace shardproof {

class Wire {
 public:
  Wire() = default;
  explicit Wire(int descriptor) : descriptor_(descriptor) {}
  Wire(Wire&& other) noexcept { *this = std::move(other); }
  Wire& operator=(Wire&& other) noexcept;
  ~Wire() { close(); }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

  // Each returns false when the other side is gone.
  bool send(const std::string& bytes);
  bool receive(std::string& message);  // waits
  bool read_available();               // does not wait; take() then has what came

  // Removes the first whole message that was read; false when there is none yet.
  bool take(std::string& message);

 private:
  bool read_once(int flags);

  int descriptor_ = -1;
  std::string unread_;
};

// Where ranks connect to.
class Listener {
 public:
  // On this host's loopback interface or, where it has an address for other hosts, on all.
  explicit Listener(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& address() const { return address_; }  // "host:port"
  Wire accept();

 private:
  int descriptor_ = -1;
  std::string address_;
};

// Throws Error when nobody listens at "host:port".
Wire connect_to(const std::string& address);

}  // namespace shardproof
