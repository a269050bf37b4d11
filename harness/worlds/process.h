// Processes and pipes: the few calls that starting and watching processes takes.
#pragma once

#include <sys/types.h>

namespace shardproof {

struct Pipe {
  int read = -1;
  int write = -1;
};

// Closed on exec. Throws Error when there is none to be had.
Pipe make_pipe();

void make_nonblocking(int descriptor);

// A descriptor that is readable once the process has ended.
int process_handle(pid_t process);

}  // namespace shardproof
