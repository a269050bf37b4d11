#include "harness/plugin/session.h"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/plugin/kernels.h"

namespace shardproof {

RankSession::RankSession(Rank& rank) : rank_(rank), problem_(problem_of(rank.running())) {
  plain_ = {&plugin_host(), &problem_, rank.index(), rank.mesh().ranks(), this};
}

void RankSession::call(const char* (*function)(shardproof_rank*), std::string_view name) {
  const char* words = function(&plain_);
  if (thrown_) std::rethrow_exception(thrown_);
  expect_success(words, name);
}

DLTensor RankSession::lend(const View& view) { return views_.emplace_back(view).dlpack(); }

int RankSession::add(Request request) {
  requests_.push_back(request);
  return static_cast<int>(requests_.size()) - 1;
}

Request& RankSession::request(int number) {
  if (number < 0 || static_cast<std::size_t>(number) >= requests_.size()) {
    throw std::invalid_argument(fmt::format("wait: {} is no request of this call", number));
  }
  return requests_[static_cast<std::size_t>(number)];
}

}  // namespace shardproof
