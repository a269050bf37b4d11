#include "parallel_impls/subjects.h"

namespace shardproof {

#define SUBJECT(name) const Subject& name();
#define MUTANT(name) const Subject& name();
#include "mutants.def"
#include "parallel_impls/subjects.def"
#undef SUBJECT
#undef MUTANT

std::vector<const Subject*> all_subjects() {
  return {
#define SUBJECT(name) &name(),
#define MUTANT(name) &name(),
#include "mutants.def"
#include "parallel_impls/subjects.def"
#undef SUBJECT
#undef MUTANT
  };
}

}  // namespace shardproof
