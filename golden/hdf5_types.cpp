#include "golden/hdf5_types.h"

#include <algorithm>

#include "golden/golden_format.h"

namespace shardproof::golden_format {

Handle float_type(DType dtype) {
  const DType stored = stored_as(dtype);
  Handle type(H5Tcopy(stored == DType::kF64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE), H5Tclose,
              "copy a type");
  if (stored == DType::kBf16 || stored == DType::kF16) {
    // Sign, exponent and fraction of the 16-bit format; the fields must fit before the type
    // shrinks.
    const std::size_t fraction = stored == DType::kBf16 ? 7 : 10;
    const std::size_t bias = stored == DType::kBf16 ? 127 : 15;
    check_hdf5(H5Tset_fields(type, 15, fraction, 15 - fraction, 0, fraction), "set fields");
    check_hdf5(H5Tset_precision(type, 16), "set the precision");
    check_hdf5(H5Tset_size(type, 2), "set the size");
    check_hdf5(H5Tset_ebias(type, bias), "set the exponent's bias");
  }
  return type;
}

Handle text_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "copy a type");
  check_hdf5(H5Tset_size(type, std::max<std::size_t>(bytes, 1)), "set the size");
  check_hdf5(H5Tset_strpad(type, H5T_STR_NULLPAD), "set the padding");
  check_hdf5(H5Tset_cset(type, H5T_CSET_UTF8), "set the character set");
  return type;
}

}  // namespace shardproof::golden_format
