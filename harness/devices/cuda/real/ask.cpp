#include "harness/devices/cuda/real/ask.h"

#include <sys/wait.h>
#include <unistd.h>

namespace shardproof::cuda {
namespace {

void write_all(int pipe, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = write(pipe, text.data() + sent, text.size() - sent);
    if (more <= 0) return;
    sent += static_cast<std::size_t>(more);
  }
}

}  // namespace

Answer ask_in_child(std::string (*question)()) {
  int ends[2];
  if (pipe(ends) != 0) return {"", "no pipe to ask the driver through"};
  const pid_t child = fork();
  if (child == 0) {
    write_all(ends[1], question());
    _exit(0);
  }
  close(ends[1]);
  Answer answer;
  char piece[256];
  for (ssize_t got = 1; (got = read(ends[0], piece, sizeof piece)) > 0;) {
    answer.text.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    answer.trouble = "no process to ask the driver in";
  } else if (!WIFEXITED(status)) {
    answer.trouble = "the driver ends a process that asks for a GPU";
  }
  return answer;
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace shardproof::cuda
