#include "reference/operators.h"

namespace shardproof {

#define OPERATOR(name) const Operator& name##_operator();
#include "reference/operators.def"
#undef OPERATOR

std::vector<const Operator*> all_operators() {
  return {
#define OPERATOR(name) &name##_operator(),
#include "reference/operators.def"
#undef OPERATOR
  };
}

}  // namespace shardproof
