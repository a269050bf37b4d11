// check_mpi: every call of MPI goes through it, so that a failure names the call's place.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX  // the C++ bindings that MPI no longer has
#endif
#include <mpi.h>

#include <source_location>
#include <stdexcept>

namespace shardproof {

// What MPI itself finds wrong.
class MpiError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void check_mpi(int code, std::source_location where = std::source_location::current());

}  // namespace shardproof
