// For tests: named tensors as text that a script can read, one line each: name, values.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/element.h"
#include "harness/model/require.h"

namespace shardproof {

class TensorDump {
 public:
  explicit TensorDump(const std::string& path) : file_(std::fopen(path.c_str(), "w")) {
    if (!file_) throw Error("cannot write " + path);
  }
  TensorDump(const TensorDump&) = delete;
  TensorDump& operator=(const TensorDump&) = delete;
  ~TensorDump() { std::fclose(file_); }

  void add(std::string_view name, const std::vector<double>& values) {
    std::fprintf(file_, "%.*s", static_cast<int>(name.size()), name.data());
    for (double value : values) std::fprintf(file_, " %.17g", value);
    std::fprintf(file_, "\n");
  }

  // Every input, and what is expected of every output: want, want.worst, want.likely.
  void add(const Problem& problem, const Expected& expected) {
    for (const TensorSpec& spec : problem.op->tensors(problem)) {
      if (spec.kind == TensorKind::kInput || spec.kind == TensorKind::kUpstream) {
        add(spec.name, whole_tensor(problem, spec));
      }
    }
    for (const ExpectedTensor& tensor : expected.tensors) {
      const std::string name(tensor.spec.name);
      add(name, tensor.want);
      add(name + ".worst", tensor.worst);
      add(name + ".likely", tensor.likely);
    }
  }

 private:
  std::FILE* file_;
};

}  // namespace shardproof
