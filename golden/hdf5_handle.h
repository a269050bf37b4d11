// Handle and check_hdf5: the C library wrapped once. A Handle owns one HDF5 identifier; every
// call's status goes through check_hdf5, which turns a failure into an Error with the library's own
// words.
#pragma once

#include <hdf5.h>

#include <concepts>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace shardproof {

[[noreturn]] void fail_hdf5(std::string_view what, std::source_location where);

// Returns `status` (an identifier, a size or a flag) unless it is negative. Throws Error:
// "cannot `what`: ...".
template <std::signed_integral Status>
Status check_hdf5(Status status, std::string_view what,
                  std::source_location where = std::source_location::current()) {
  if (status < 0) fail_hdf5(what, where);
  return status;
}

// HDF5 prints its error stack to stderr unless told otherwise.
void silence_hdf5();

class Handle {
 public:
  using Closer = herr_t (*)(hid_t);

  // Takes what an H5...create or H5...open call returned.
  Handle(hid_t id, Closer closer, std::string_view what,
         std::source_location where = std::source_location::current())
      : id_(check_hdf5(id, what, where)), closer_(closer) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), closer_(other.closer_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) closer_(id_);
  }

  hid_t id() const { return id_; }
  operator hid_t() const { return id_; }  // NOLINT: a Handle is usable as its identifier

  // Closes now, so that a failure to write what was buffered is seen.
  void close(std::source_location where = std::source_location::current()) {
    check_hdf5(closer_(std::exchange(id_, H5I_INVALID_HID)), "close an HDF5 object", where);
  }

 private:
  hid_t id_;
  Closer closer_;
};

}  // namespace shardproof
