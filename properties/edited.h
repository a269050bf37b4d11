// Edited: the twin of a case that properties compare it with, its problem changed by an Edit.
#pragma once

#include <string>

#include "harness/check/property.h"
#include "harness/model/edit.h"

namespace shardproof {

// Why a property cannot edit this problem so, or an empty string.
std::string why_not_edited(const Problem& problem, Edit edit);

// `value` with the edit at `position`.
Case with_edit(const Case& value, Edit edit, Index position = 0);

}  // namespace shardproof
