#include "harness/model/operator.h"

namespace shardproof {

const ExpectedTensor* Expected::find(std::string_view name) const {
  for (const ExpectedTensor& tensor : tensors) {
    if (tensor.spec.name == name) return &tensor;
  }
  return nullptr;
}

}  // namespace shardproof
