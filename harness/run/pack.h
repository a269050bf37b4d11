// Pack and Unpack: plain values as bytes between the driver, its workers and their ranks, which are
// the same program on the same kind of machine. Unpacking reads values in the order in which they
// were packed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "harness/model/require.h"

namespace shardproof {

class Pack {
 public:
  Pack& whole(std::int64_t value) { return raw(&value, sizeof value); }
  Pack& real(double value) { return raw(&value, sizeof value); }
  Pack& text(std::string_view value) {
    whole(static_cast<std::int64_t>(value.size()));
    return raw(value.data(), value.size());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  Pack& raw(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  std::string bytes_;
};

class Unpack {
 public:
  explicit Unpack(std::string_view bytes) : rest_(bytes) {}

  std::int64_t whole() { return plain<std::int64_t>(); }
  double real() { return plain<double>(); }
  std::string text() {
    const auto size = static_cast<std::size_t>(whole());
    return std::string(take(size));
  }
  bool empty() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  template <class T>
  T plain() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  // A worker whose memory the subject has overwritten may send anything.
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw Error("a worker sent a damaged message");
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  std::string_view rest_;
};

}  // namespace shardproof
