#include "properties/edited.h"

#include "properties/tokens.h"

namespace shardproof {

std::string why_not_edited(const Problem& problem, Edit edit) {
  if (!uses_key(problem, "edit")) return "the operator's inputs cannot be edited";
  if (problem.edit != Edit::kNone) return "the problem is edited already";
  if (has_edit(edit, problem.op->tensors(problem))) return "";
  return "the operator has nothing that this edit changes";
}

Case with_edit(const Case& value, Edit edit, Index position) {
  Case edited = value;
  edited.problem.edit = edit;
  edited.problem.edit_at = position;
  return edited;
}

}  // namespace shardproof
