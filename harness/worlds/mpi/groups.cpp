#include "harness/worlds/mpi/groups.h"

namespace shardproof {
namespace {

// The first member makes the id and tells it the others.
int join_carrier(Carrier& carrier, const MpiGroup& group) {
  Carrier::GroupId id{};
  if (group.position == 0) id = carrier.make_id();
  check_mpi(MPI_Bcast(id.data(), static_cast<int>(id.size()), MPI_BYTE, 0, group.communicator));
  return carrier.join(id, group.size(), group.position);
}

}  // namespace

MpiGroup MpiGroups::get(const std::string& axis, int axis_index, const std::vector<int>& members,
                        Carrier* carrier) {
  MpiGroup group{axis, members, 0, MPI_COMM_NULL};
  Made& made = made_[{axis_index, members}];
  MPI_Comm& communicator = made.communicator;
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
  if (carrier != nullptr && made.carried < 0) made.carried = join_carrier(*carrier, group);
  group.carried = made.carried;
  return group;
}

}  // namespace shardproof
