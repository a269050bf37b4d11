#include "harness/worlds/mpi_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "harness/model/require.h"
#include "harness/worlds/mpi_guard.h"
#include "harness/worlds/process.h"

namespace shardproof {
namespace {

constexpr std::size_t kWordsKept = 4096;

}  // namespace

MpiLaunch::MpiLaunch(const MpiCommand& command) {
  RunFolder folder;
  const Pipe lifeline = make_pipe();
  const Pipe ended = make_pipe();
  const Pipe printed = make_pipe();
  make_nonblocking(printed.write);  // mpirun must not wait for a reader
  guard_ = fork();
  if (guard_ < 0) {
    folder.remove();
    throw Error(fmt::format("cannot start a process for mpirun: {}", std::strerror(errno)));
  }
  if (guard_ == 0) run_guard(command, folder, lifeline.read, ended.write, printed.write);
  for (int descriptor : {lifeline.read, ended.write, printed.write}) close(descriptor);
  lifeline_ = lifeline.write;
  ended_ = ended.read;
  printed_ = printed.read;
  make_nonblocking(ended_);
  make_nonblocking(printed_);
}

MpiLaunch::~MpiLaunch() {
  for (int descriptor : {lifeline_, ended_, printed_}) close(descriptor);
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> MpiLaunch::status() {
  int status = 0;
  if (!status_ && read(ended_, &status, sizeof status) == sizeof status) status_ = status;
  return status_;
}

const std::string& MpiLaunch::words() {
  std::array<char, 4096> chunk;
  for (ssize_t count = 0; (count = read(printed_, chunk.data(), chunk.size())) > 0;) {
    words_.append(chunk.data(), static_cast<std::size_t>(count));
  }
  if (words_.size() > kWordsKept) words_.erase(0, words_.size() - kWordsKept);
  return words_;
}

std::filesystem::path on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::filesystem::path candidate = std::filesystem::path(folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace shardproof
