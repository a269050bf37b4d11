// The table of subjects: the correct ones, then the mutants.
#pragma once

#include <vector>

#include "harness/run/subject.h"

namespace shardproof {

std::vector<const Subject*> all_subjects();

}  // namespace shardproof
