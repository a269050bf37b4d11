// RankSession: a rank as a sharded implementation of a plugin sees it during one call. No exception
// crosses the plugin: the first one ends all that it asks for and is thrown again when it returns.
#pragma once

#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "harness/plugin/problem.h"
#include "harness/plugin/shardproof_plugin.h"
#include "harness/run/rank.h"

namespace shardproof {

class RankSession {
 public:
  explicit RankSession(Rank& rank);
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  // Throws what went wrong inside, or std::runtime_error with what the plugin returned.
  void call(const char* (*function)(shardproof_rank*), std::string_view name);

  // What the functions of shardproof_host work on.
  Rank& rank() { return rank_; }
  DLTensor lend(const View& view);
  int add(Request request);
  Request& request(int number);  // throws std::invalid_argument when there is none such

  // Does what the plugin asked for. NULL, or that it must return.
  template <typename Action>
  const char* guard(Action&& action) {
    constexpr const char* kEnded = "the run has ended";
    if (thrown_) return kEnded;
    try {
      action();
      return nullptr;
    } catch (...) {
      thrown_ = std::current_exception();
    }
    return kEnded;
  }

  static RankSession& of(shardproof_rank* rank) { return *static_cast<RankSession*>(rank->own); }

 private:
  Rank& rank_;
  shardproof_problem problem_;
  shardproof_rank plain_{};
  std::deque<View> views_;  // that DLTensors borrow from
  std::vector<Request> requests_;
  std::exception_ptr thrown_;
};

// The functions of every rank.
const shardproof_host& plugin_host();

}  // namespace shardproof
