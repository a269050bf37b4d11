#include "harness/run/whereabouts.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardproof {
namespace {

thread_local Whereabouts* current = nullptr;

template <std::size_t kSize>
void put(std::array<char, kSize>& target, std::string_view text) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::copy_n(text.data(), size, target.data());
  target[size] = '\0';
}

template <std::size_t kSize>
std::string_view text_of(const std::array<char, kSize>& text) {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return {text.data(), static_cast<std::size_t>(end - text.begin())};
}

}  // namespace

std::string Whereabouts::text() const {
  const int at = rank;
  if (at < 0) return {};
  if (at >= static_cast<int>(last.size())) return fmt::format("rank {}", at);
  const Event& event = last[static_cast<std::size_t>(at)];
  if (event.operation[0] == '\0') return fmt::format("rank {}, after no communication", at);
  return fmt::format("rank {}, after {} ({} axis, {})", at, text_of(event.operation),
                     text_of(event.axis), event.backward ? "backward" : "forward");
}

void keep_whereabouts(Whereabouts* place) { current = place; }

void note_rank(int rank) {
  if (current != nullptr) current->rank = rank;
}

void note_event(int rank, std::string_view operation, std::string_view axis, bool backward) {
  if (current == nullptr || rank >= static_cast<int>(current->last.size())) return;
  Whereabouts::Event& event = current->last[static_cast<std::size_t>(rank)];
  put(event.operation, operation);
  put(event.axis, axis);
  event.backward = backward;
}

}  // namespace shardproof
