// What is done to the memory of tensors in the order of the work on them (run/store.h).
#pragma once

#include "harness/devices/cuda/kernels/block.h"
#include "harness/run/store.h"

namespace shardproof::kernels {

// In words of 16 bits: payloads of the narrowest elements end at any of them.
using Word16 = std::uint16_t;
inline constexpr Index kBandWords = static_cast<Index>(kGuardBytes / sizeof(Word16));

// Word `i` of 8 bytes over and over.
SHARDPROOF_KERNEL inline Word16 word_of(std::uint64_t pattern, Index i) {
  return static_cast<Word16>(pattern >> (16 * (i % 4)));
}

// A guard band, the poison over and over, another band.
struct Prepare {
  static constexpr bool kMeets = false;
  std::byte* block_start = nullptr;
  Index bytes = 0;
  std::uint64_t poison = 0;

  Index words() const { return 2 * kBandWords + bytes / 2; }

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    auto* to = reinterpret_cast<Word16*>(block_start);
    const Index payload = bytes / 2;
    for_all(block, 2 * kBandWords + payload, [&](Index i) {
      const Index at = i - kBandWords;
      to[i] = at >= 0 && at < payload ? word_of(poison, at) : word_of(kGuard, 0);
    });
  }
};

// One thread: there is little to read, and nobody else writes to `broken` meanwhile.
struct Inspect {
  static constexpr bool kMeets = false;
  const std::byte* block_start = nullptr;
  Index bytes = 0;
  std::uint64_t number = 0;
  BrokenGuards* broken = nullptr;

  template <class Block>
  SHARDPROOF_KERNEL void operator()(Block& block) const {
    for_all(block, 1, [&](Index) {
      if (is_whole(block_start) && is_whole(block_start + kGuardBytes + bytes)) return;
      if (broken->count < BrokenGuards::kMost) broken->numbers[broken->count] = number;
      ++broken->count;
    });
  }

  SHARDPROOF_KERNEL static bool is_whole(const std::byte* band) {
    const auto* words = reinterpret_cast<const Word16*>(band);
    for (Index i = 0; i < kBandWords; ++i) {
      if (words[i] != word_of(kGuard, 0)) return false;
    }
    return true;
  }
};

}  // namespace shardproof::kernels
