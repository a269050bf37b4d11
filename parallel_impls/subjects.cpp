#include "parallel_impls/subjects.h"

namespace shardproof {

#define SUBJECT(name) const Subject& name();
#define MUTANT(name) const Subject& name();
#include "parallel_impls/subjects.def"
#include "mutants.def"
#undef SUBJECT
#undef MUTANT

std::vector<const Subject*> all_subjects() {
  return {
#define SUBJECT(name) &name(),
#define MUTANT(name) &name(),
#include "parallel_impls/subjects.def"
#include "mutants.def"
#undef SUBJECT
#undef MUTANT
  };
}

}  // namespace shardproof
