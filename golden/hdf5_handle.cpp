#include "golden/hdf5_handle.h"

#include <fmt/format.h>

#include "harness/model/require.h"

namespace shardproof {
namespace {

// The innermost entry of the error stack says what went wrong; the others say who called whom.
herr_t take_innermost(unsigned position, const H5E_error2_t* entry, void* text) {
  if (position == 0 && entry->desc != nullptr) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

}  // namespace

void fail_hdf5(std::string_view what, std::source_location where) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  const std::string_view file = where.file_name();
  throw Error(fmt::format("cannot {}: {} ({}:{})", what,
                          reason.empty() ? "HDF5 gives no reason" : reason,
                          file.substr(file.rfind('/') + 1), where.line()));
}

void silence_hdf5() { check_hdf5(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "silence HDF5"); }

}  // namespace shardproof
