#include "harness/masks/masks.h"

namespace shardproof {

#define MASK(name) const Mask& name##_mask();
#include "harness/masks/masks.def"
#undef MASK

std::vector<const Mask*> all_masks() {
  return {
#define MASK(name) &name##_mask(),
#include "harness/masks/masks.def"
#undef MASK
  };
}

}  // namespace shardproof
