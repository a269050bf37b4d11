// The HDF5 types of a golden's numbers and texts.
#pragma once

#include "golden/hdf5_handle.h"
#include "harness/model/dtype.h"

namespace shardproof::golden_format {

// The type of a dtype; bf16 and f16 are HDF5 floating-point types of 16 bits, tf32 is f32.
Handle float_type(DType dtype);

// Fixed-length text, padded with NUL; of one byte when `bytes` is 0.
Handle text_type(std::size_t bytes);

}  // namespace shardproof::golden_format
