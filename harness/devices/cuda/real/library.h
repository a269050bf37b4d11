// Vendors' libraries, opened when they are first wanted: what needs none of them runs without.
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

#include "harness/model/require.h"

namespace shardproof::cuda {

class Library {
 public:
  // `name` is for people. Throws Error when there is no such file.
  Library(std::string name, const std::string& file)
      : name_(std::move(name)), handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Error(name_ + " cannot be loaded: " + dlerror());
  }

  // Throws Error when it has no such function.
  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (function == nullptr) throw Error(name_ + " has no function " + symbol);
  }

 private:
  std::string name_;
  void* handle_;  // stays open: its functions are kept
};

}  // namespace shardproof::cuda
