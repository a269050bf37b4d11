// MpiGroups: MPI communicators for the groups of ranks that cases need, made when first needed and
// kept for the life of the process. All members of a group ask for it at the same time.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/carrier.h"
#include "harness/worlds/mpi/call.h"

namespace shardproof {

// The ranks that differ along one axis; the second number of two ranks of the world is that in it.
struct MpiGroup {
  std::string axis;
  std::vector<int> members;  // global ranks, by coordinate
  int position = 0;          // of this rank
  MPI_Comm communicator = MPI_COMM_NULL;
  int carried = -1;  // the group's number for the rank's carrier, if it has one

  int size() const { return static_cast<int>(members.size()); }
};

class MpiGroups {
 public:
  // `axis_index` tells groups of equal members apart, so that their messages never meet. `carrier`:
  // the rank's, always the same; null: it has none.
  MpiGroup get(const std::string& axis, int axis_index, const std::vector<int>& members,
               Carrier* carrier);

 private:
  struct Made {
    MPI_Comm communicator = MPI_COMM_NULL;
    int carried = -1;
  };
  std::map<std::pair<int, std::vector<int>>, Made> made_;
};

}  // namespace shardproof
