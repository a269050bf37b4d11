#include "golden/golden_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "harness/model/require.h"

namespace shardproof {
namespace {

[[noreturn]] void fail(std::string_view what, const std::string& path) {
  throw Error(fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor(int descriptor, std::string_view what, const std::string& path)
      : descriptor_(descriptor), path_(path) {
    if (descriptor < 0) fail(what, path);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(descriptor_); }

  operator int() const { return descriptor_; }  // NOLINT

  std::int64_t bytes() const { return status().st_size; }
  bool is_regular() const { return S_ISREG(status().st_mode); }

  std::vector<std::byte> read_all() const {
    std::vector<std::byte> result(static_cast<std::size_t>(bytes()));
    std::size_t done = 0;
    while (done < result.size()) {
      const ssize_t count = ::pread(descriptor_, result.data() + done, result.size() - done,
                                    static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read", path_);
      if (count == 0) break;  // it has become shorter meanwhile
      done += static_cast<std::size_t>(count);
    }
    result.resize(done);
    return result;
  }

  void write_all(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void link_as(const std::string& name) const {
    const std::string self = fmt::format("/proc/self/fd/{}", descriptor_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail("name", name);
    }
  }

  void synchronise() const {
    if (::fsync(descriptor_) != 0) fail("fsync", path_);
  }

 private:
  struct stat status() const {
    struct stat result {};
    if (::fstat(descriptor_, &result) != 0) fail("inspect", path_);
    return result;
  }

  int descriptor_;
  std::string path_;
};

}  // namespace

void place_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;  // opening the temporary file says what is wrong
  std::filesystem::create_directories(folder, ignored);
  const std::string temporary =
      folder / fmt::format(".{}.{}.partial", path.filename().string(), ::getpid());
  try {
    {
      // Where a file can be written before it has a name, a kill leaves none behind.
      ::unlink(temporary.c_str());
      int opened = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
      const bool is_named = opened < 0;
      if (is_named) opened = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      const Descriptor file(opened, "create", temporary);
      file.write_all(bytes);
      file.synchronise();
      if (!is_named) file.link_as(temporary);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename a file to", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const Descriptor place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open",
                         folder);
  place.synchronise();
}

std::vector<std::byte> file_bytes(const std::filesystem::path& path, std::int64_t limit) {
  // A pipe or a device must not block.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), "open", path);
  if (!file.is_regular()) throw Error(fmt::format("'{}' is not a regular file", path.string()));
  if (file.bytes() > limit) {
    throw Error(fmt::format("'{}' has {} bytes, the most for a golden is {}", path.string(),
                            file.bytes(), limit));
  }
  return file.read_all();
}

}  // namespace shardproof
