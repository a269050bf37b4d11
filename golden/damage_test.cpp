// Files that are damaged, foreign or half written: each gives a clear Error or the golden that was
// written, never a crash, a hang or something else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "golden/golden_file.h"
#include "golden/sample_golden_test.h"

// HDF5's own, exported but in no public header.
extern "C" std::uint32_t H5_checksum_metadata(const void* data, std::size_t bytes,
                                              std::uint32_t initial);

namespace shardproof {
namespace {

using Bytes = std::vector<std::byte>;

Bytes damaged(Bytes bytes, GoldenDraw& draw) {
  const auto size = std::ssize(bytes);
  const auto at = [&](Index position) -> std::byte& {
    return bytes[static_cast<std::size_t>(position)];
  };
  switch (draw.below(8)) {
    case 0:
      bytes.resize(static_cast<std::size_t>(draw.below(size)));
      break;
    case 1:
      at(draw.below(size)) = static_cast<std::byte>(draw.below(256));
      break;
    case 2: {  // a lost sector
      const Index first = draw.below(size);
      for (Index i = first; i < std::min(size, first + 512); ++i) at(i) = std::byte{0};
      break;
    }
    case 3:
      bytes.insert(bytes.begin() + draw.below(size), std::byte{7});
      break;
    case 4:
      bytes.erase(bytes.begin() + draw.below(size));
      break;
    default:
      for (Index flips = 1 + draw.below(3); flips > 0; --flips) {
        at(draw.below(size)) ^= std::byte{1} << static_cast<int>(draw.below(8));
      }
  }
  return bytes;
}

// A part of an HDF5 file: it begins with a signature and ends with a checksum.
struct Checked {
  std::size_t first = 0;
  std::size_t size = 0;  // without the checksum
};

constexpr std::size_t kChecksumBytes = 4;

std::uint32_t checksum(const Bytes& image, const Checked& part) {
  return H5_checksum_metadata(&image[part.first], part.size, 0);
}

// Their lengths are found by trying.
std::vector<Checked> checked_parts(const Bytes& image) {
  constexpr std::array<std::string_view, 8> kSignatures{"\x89HDF", "OHDR", "OCHK", "FAHD",
                                                        "FADB",    "FRHP", "BTHD", "BTLF"};
  constexpr std::size_t kLongest = 4000;
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  std::vector<Checked> parts;
  for (std::size_t first = 0; first + 2 * kChecksumBytes < image.size(); ++first) {
    if (std::ranges::find(kSignatures, text.substr(first, 4)) == kSignatures.end()) continue;
    const std::size_t longest = std::min(kLongest, image.size() - first - kChecksumBytes);
    for (std::size_t size = kChecksumBytes; size <= longest; ++size) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, &image[first + size], sizeof stored);
      if (checksum(image, {first, size}) != stored) continue;
      parts.push_back({first, size});
      break;
    }
  }
  return parts;
}

// Some bytes of one part changed, and its checksum made right.
Bytes forged(Bytes image, const std::vector<Checked>& parts, GoldenDraw& draw) {
  const Checked part = parts[static_cast<std::size_t>(draw.below(std::ssize(parts)))];
  for (Index changes = 1 + draw.below(3); changes > 0; --changes) {
    constexpr std::array<int, 6> kTelling{0, 1, 0x7f, 0x80, 0xfe, 0xff};
    const int value = draw.below(2) == 0 ? static_cast<int>(draw.below(256))
                                         : kTelling[static_cast<std::size_t>(draw.below(6))];
    const auto at = static_cast<std::size_t>(draw.below(static_cast<Index>(part.size)));
    image[part.first + at] = static_cast<std::byte>(value);
  }
  const std::uint32_t sum = checksum(image, part);
  std::memcpy(&image[part.first + part.size], &sum, sizeof sum);
  return image;
}

TEST(Damage, GivesAnErrorOrTheGoldenThatWasWritten) {
  const TemporaryFolder folder;
  GoldenDraw draw(7);
  int refused = 0, unharmed = 0, crashed = 0;
  const int count = rounds("SHARDPROOF_DAMAGED_FILES", 600);
  Golden golden;
  Bytes image;
  for (int i = 0; i < count; ++i) {
    if (i % 50 == 0) {
      golden = draw.golden();
      image = golden_image(golden);
    }
    const auto path = folder / "x.h5";
    put_file(path, damaged(image, draw));
    try {
      EXPECT_TRUE(same(read_golden(path), golden)) << "file " << i << " reads as something else";
      ++unharmed;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path.string()), std::string::npos) << text;
      crashed +=
          text.find("crashed") != std::string::npos || text.find("takes more") != std::string::npos;
      ++refused;
    }
  }
  std::printf("%d damaged files: %d refused, %d read as written, %d readers died\n", count, refused,
              unharmed, crashed);
  EXPECT_GT(refused, count / 2);
  EXPECT_EQ(crashed, 0);
}

// Whoever means harm makes the checksums right, and then HDF5 1.10.8 itself can crash.
TEST(Damage, WithRightChecksumsItIsTheChildThatDies) {
  const TemporaryFolder folder;
  GoldenDraw draw(10);
  std::map<std::string, int> endings;
  const int count = rounds("SHARDPROOF_FORGED_FILES", 200);
  Bytes image;
  std::vector<Checked> parts;
  for (int i = 0; i < count; ++i) {
    if (i % 50 == 0) {
      image = golden_image(draw.golden());
      parts = checked_parts(image);
      ASSERT_GT(parts.size(), 10U);
    }
    put_file(folder / "x.h5", forged(image, parts, draw));
    try {
      const Golden golden = read_golden(folder / "x.h5");
      EXPECT_EQ(golden_format::broken_rule(golden), "");
      ++endings["read"];
    } catch (const Error& error) {
      const std::string_view text = error.what();
      const bool died = text.find("reading it") != text.npos;
      ++endings[died ? std::string(text.substr(text.find("reading it"))) : "refused"];
    }
  }
  std::printf("%d forged files:\n", count);
  for (const auto& [ending, times] : endings) std::printf("%8d %s\n", times, ending.c_str());
  EXPECT_GT(endings["refused"], 0);
}

TEST(Damage, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  const Bytes image = golden_image(Golden{});
  for (std::size_t size = 0; size < image.size(); size += 97) {
    put_file(folder / "x.h5", std::span(image).first(size));
    EXPECT_NE(complaint(folder / "x.h5"), "") << size;
  }
}

TEST(Damage, OfTheBytesBetweenReaderAndParentIsRefusedOrHarmless) {
  GoldenDraw draw(8);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const Golden golden = draw.golden();
    try {
      const Golden read = from_bytes(damaged(to_bytes(golden), draw));
      EXPECT_EQ(golden_format::broken_rule(read), "");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(Damage, WhatIsNoHdf5FileIsSaidSo) {
  const TemporaryFolder folder;
  const auto expect = [](const std::filesystem::path& path, const std::string& why) {
    const std::string said = complaint(path);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find(path.string()), std::string::npos) << said;
  };
  std::ofstream(folder / "text") << "attention q=3 | single\n";
  std::ofstream(folder / "empty");
  std::ofstream(folder / "signature") << "\x89HDF\r\n\x1a\n\x03";
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect(folder / "text", "not an HDF5 file");
  expect(folder / "empty", "not an HDF5 file");
  expect(folder / "signature", "damaged or truncated");
  expect(folder / "pipe", "not a regular file");
  expect(folder / "missing", "No such file");
  expect(folder.path(), "not a regular file");
  expect("/dev/zero", "not a regular file");
}

TEST(Damage, AKilledWriterLeavesNothingOrAWholeFile) {
  const TemporaryFolder folder;
  const auto path = folder / "x.h5";
  std::vector<Golden> goldens;  // large enough for a kill to meet the writing
  for (std::uint64_t seed = 0; seed < 4; ++seed) goldens.push_back(drawn_golden(seed));
  GoldenDraw draw(9);
  for (Golden& golden : goldens) {
    golden.inputs = {{"q", DType::kF64, {1 << 14}, draw.values(DType::kF64, 1 << 14)}};
  }
  const auto start = std::chrono::steady_clock::now();
  for (const Golden& golden : goldens) write_golden(path, golden);
  const std::chrono::duration<double, std::micro> once =
      (std::chrono::steady_clock::now() - start) / goldens.size();
  std::filesystem::remove(path);
  int absent = 0, whole = 0, partial = 0;
  const int count = rounds("SHARDPROOF_KILLED_WRITERS", 100);
  for (int i = 0; i < count; ++i) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      for (std::size_t turn = 0;; ++turn) write_golden(path, goldens[turn % goldens.size()]);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(draw.below(static_cast<Index>(4 * once.count()))));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() != ".partial") continue;
      ++partial;
      std::filesystem::remove(entry.path());
    }
    if (!std::filesystem::exists(path)) {
      ++absent;
      continue;
    }
    ++whole;
    const Golden read = read_golden(path);
    EXPECT_TRUE(std::ranges::any_of(goldens, [&](const Golden& g) { return same(g, read); }));
    std::filesystem::remove(path);
  }
  std::printf("%d writers killed: %d whole files, %d absent; %d while a temporary file was there\n",
              count, whole, absent, partial);
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace shardproof
