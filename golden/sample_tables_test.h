// Every table of the program, for tests that need real cases and runs.
#pragma once

#include "harness/check/judge.h"
#include "harness/devices/devices.h"
#include "harness/masks/masks.h"
#include "harness/worlds/worlds.h"
#include "parallel_impls/subjects.h"
#include "properties/properties.h"
#include "reference/operators.h"

namespace shardproof {

inline const Tables& sample_tables() {
  static const Tables tables{all_operators(),  all_masks(),  all_subjects(),
                             all_properties(), all_worlds(), all_devices()};
  return tables;
}

}  // namespace shardproof
