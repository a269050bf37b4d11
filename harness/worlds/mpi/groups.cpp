#include "harness/worlds/mpi/groups.h"

namespace shardproof {

MpiGroup MpiGroups::get(const std::string& axis, int axis_index, const std::vector<int>& members) {
  MpiGroup group{axis, members, 0, MPI_COMM_NULL};
  MPI_Comm& communicator = made_.try_emplace({axis_index, members}, MPI_COMM_NULL).first->second;
  if (communicator == MPI_COMM_NULL) {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all));
    check_mpi(MPI_Group_incl(all, group.size(), members.data(), &some));
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, some, axis_index, &communicator));
    check_mpi(MPI_Group_free(&some));
    check_mpi(MPI_Group_free(&all));
  }
  check_mpi(MPI_Comm_rank(communicator, &group.position));
  group.communicator = communicator;
  return group;
}

}  // namespace shardproof
