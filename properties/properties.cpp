#include "properties/properties.h"

namespace shardproof {

#define PROPERTY(name) const Property& name##_property();
#include "properties/properties.def"
#undef PROPERTY

std::vector<const Property*> all_properties() {
  return {
#define PROPERTY(name) &name##_property(),
#include "properties/properties.def"
#undef PROPERTY
  };
}

}  // namespace shardproof
