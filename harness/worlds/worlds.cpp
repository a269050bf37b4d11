#include "harness/worlds/worlds.h"

namespace shardproof {

#define WORLD(name) WorldEntry name##_world();
#include "harness/worlds/worlds.def"
#undef WORLD

std::vector<WorldEntry> all_worlds() {
  return {
#define WORLD(name) name##_world(),
#include "harness/worlds/worlds.def"
#undef WORLD
  };
}

}  // namespace shardproof
