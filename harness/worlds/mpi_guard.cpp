#include "harness/worlds/mpi_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>

#include "harness/model/require.h"
#include "harness/worlds/process.h"

namespace shardproof {
namespace {

constexpr std::string_view kPrefix = "shardproof-";
constexpr int kGraceMs = 5000;  // for mpirun to take ranks on other hosts down

std::array<std::filesystem::path, 2> bases() {
  return {"/dev/shm", std::filesystem::temp_directory_path()};
}

int locked(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

// Folders that nobody has locked. Young ones may be about to be.
void sweep(const std::filesystem::path& base) {
  constexpr std::time_t kYoungSeconds = 60;
  std::error_code ignored;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(base, ignored)) {
    struct stat facts {};
    const bool ours = entry.path().filename().string().rfind(kPrefix, 0) == 0 &&
                      lstat(entry.path().c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
                      facts.st_uid == geteuid();
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (!ours || now.tv_sec - facts.st_mtime < kYoungSeconds) continue;
    const int lock = locked(entry.path());
    if (lock < 0) continue;
    std::filesystem::remove_all(entry.path(), ignored);
    close(lock);
  }
}

void keep_open(std::array<int, 4> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = STDERR_FILENO + 1;
  for (int descriptor : kept) {
    const auto keep = static_cast<unsigned>(descriptor);
    if (keep > first) close_range(first, keep - 1, 0);
    first = keep + 1;
  }
  close_range(first, ~0U, 0);
}

// Measured with Open MPI 4.1: it runs as root, with more ranks than processors, without leaving
// segments in /dev/shm and without a stack of bare addresses (opal_signal) that would push out the
// last words of a rank. Another MPI ignores these. What the user has set already stays.
void set_environment(const MpiCommand& command, const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::string>> settings{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
      {"OMPI_MCA_opal_signal", ""},
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", command.on_this_host ? "self,vader" : "self,vader,tcp"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
  if (command.on_this_host) {
    settings.emplace_back("OMPI_MCA_btl_vader_backing_directory", folder.string());
    settings.emplace_back("OMPI_MCA_orte_tmpdir_base", folder.string());
  }
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 0);
  setenv("TMPDIR", folder.c_str(), 1);
}

[[noreturn]] void become_launcher(const MpiCommand& command, const std::filesystem::path& folder,
                                  int printed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_DFL);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(printed, STDOUT_FILENO);
  dup2(printed, STDERR_FILENO);
  set_environment(command, folder);
  std::vector<std::string> words = command.launcher;
  words.insert(words.end(), {"-n", std::to_string(command.ranks)});
  words.insert(words.end(), command.program.begin(), command.program.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const std::string why = fmt::format("{}: {}\n", words[0], std::strerror(errno));
  if (write(STDERR_FILENO, why.data(), why.size()) < 0) _exit(126);
  _exit(127);
}

// The guard is told of every orphan below it, so that its children are all that are left.
void end_everything() {
  for (;;) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", gettid()));
    for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

// Waits until the process has ended or `lifeline` closes (-1: never does); true when it has ended.
bool wait_for(pid_t process, int lifeline, int limit_ms, int& status) {
  const int handle = process_handle(process);
  std::array<pollfd, 2> events{{{handle, POLLIN, 0}, {lifeline, POLLIN, 0}}};
  while (poll(events.data(), events.size(), limit_ms) < 0 && errno == EINTR) {
  }
  close(handle);
  return waitpid(process, &status, WNOHANG) == process;
}

// The driver's terminal, handlers and files are none of mpirun's business.
void detach(int lifeline, int ended, int printed, int lock) {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  keep_open({lifeline, ended, printed, lock});
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);  // who wants to know how mpirun ended may be gone
}

}  // namespace

RunFolder::RunFolder() {
  for (const std::filesystem::path& base : bases()) {
    sweep(base);
    // The name is short because MPI makes sockets below it, whose paths must be.
    std::string name = (base / (std::string(kPrefix) + "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) continue;
    path_ = name;
    lock_ = locked(path_);
    return;
  }
  throw Error(fmt::format("cannot make a folder for MPI in {} or {}: {}", bases()[0].string(),
                          bases()[1].string(), std::strerror(errno)));
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

void RunFolder::remove() const {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void run_guard(const MpiCommand& command, const RunFolder& folder, int lifeline, int ended,
               int printed) {
  detach(lifeline, ended, printed, folder.lock());
  const pid_t launcher = fork();
  if (launcher == 0) become_launcher(command, folder.path(), printed);
  int status = 0;
  bool has_ended = wait_for(launcher, lifeline, -1, status);
  if (has_ended && write(ended, &status, sizeof status) < 0) status = 0;  // nobody asks any more
  if (!has_ended && !command.on_this_host) {
    kill(launcher, SIGTERM);
    has_ended = wait_for(launcher, -1, kGraceMs, status);
  }
  if (!has_ended) kill(launcher, SIGKILL);
  end_everything();
  folder.remove();
  _exit(0);
}

}  // namespace shardproof
