// What the tests of goldens share: goldens drawn from a seed, a folder that goes away, Python.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "golden/golden.h"
#include "golden/golden_bytes.h"
#include "golden/golden_format.h"
#include "harness/model/require.h"

namespace shardproof {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "/shardproof_golden_XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "the test can make a folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class GoldenDraw {
 public:
  explicit GoldenDraw(std::uint64_t seed) : random_(seed) {}

  Golden golden() {
    Golden golden;
    golden.case_text = "attention q=" + std::to_string(below(99)) + " | " + text(200);
    golden.property = text(30);
    golden.verdict = {static_cast<VerdictKind>(below(kVerdictKinds)),
                      text(3000),
                      "t0",
                      text(20),
                      below(100) - 1,
                      real(),
                      real(),
                      real()};
    golden.contract = text(500);
    for (Index i = below(20); i > 0; --i) golden.environment["key_" + std::to_string(i)] = text(90);
    for (std::size_t group = 0; group < golden_format::kTensorGroups.size(); ++group) {
      for (Index i = 0; i < below(6); ++i) {
        golden_format::tensors_of(golden, group).push_back(tensor("t" + std::to_string(i)));
      }
    }
    for (int rank = 0; rank < below(12); ++rank) golden.shards.push_back(shard(golden, rank));
    for (Index i = below(40); i > 0; --i) golden.trace.push_back(event());
    return golden;
  }

  GoldenTensor tensor(const std::string& name) {
    const DType dtype = all_dtypes()[static_cast<std::size_t>(below(5))];
    GoldenTensor result{name, dtype, {}, {}};
    for (Index d = below(5); d > 0; --d) result.shape.append(below(6));
    result.values = values(dtype, result.shape.elements());
    return result;
  }

  // Every bit pattern of the dtype may occur, zeros and infinities often.
  std::vector<double> values(DType dtype, Index count) {
    const DType stored = golden_format::stored_as(dtype);
    std::vector<double> result;
    for (Index i = 0; i < count; ++i) {
      const std::uint64_t bits = random_();
      std::uint64_t word = 0;
      // Once through the storage: a NaN of 16 bits has one form.
      store(stored, &word, 0, load(stored, &bits, 0));
      const Index kind = below(40);
      if (kind < 2) store(stored, &word, 0, kind == 0 ? 0.0 : -0.0);
      if (kind == 2) store(stored, &word, 0, std::numeric_limits<double>::infinity());
      result.push_back(load(stored, &word, 0));
    }
    return result;
  }

  Index below(Index limit) {
    return static_cast<Index>(random_() % static_cast<std::uint64_t>(limit));
  }

 private:
  double real() { return below(4) == 0 ? values(DType::kF64, 1)[0] : 0x1p-20 * double(below(99)); }

  std::string text(Index longest) {
    std::string result;
    for (Index i = below(longest); i > 0; --i) {
      result += static_cast<char>(below(20) == 0 ? '\n' : 32 + below(95));
    }
    return result;
  }

  KeptShard shard(const Golden& golden, int rank) {
    KeptShard result{below(2) == 0 ? "t0" : "t1", rank, {}, {}};
    Index elements = 1;
    for (Index d = below(4); d > 0; --d) {
      std::vector<Index> indices(static_cast<std::size_t>(below(5)));
      for (Index& index : indices) index = below(1000);
      elements *= std::ssize(indices);
      result.shard.push_back(indices);
    }
    result.values = values(golden_format::shard_dtype(golden, result), elements);
    return result;
  }

  Event event() {
    Event result;
    result.rank = static_cast<int>(below(8));
    result.phase = static_cast<Phase>(below(2));
    result.operation = below(2) == 0 ? "send" : "reduce_scatter";
    result.axis = below(2) == 0 ? "cp" : "";
    result.peer = static_cast<int>(below(9)) - 1;
    result.bytes = below(golden_format::kMaximumEventBytes);
    result.start = real();
    result.end = real();
    return result;
  }

  std::mt19937_64 random_;
};

inline Golden drawn_golden(std::uint64_t seed) { return GoldenDraw(seed).golden(); }

inline bool same(const Golden& left, const Golden& right) {
  return to_bytes(left) == to_bytes(right);
}

// How often a test repeats something; the variable asks for more than fits into a quick test.
inline int rounds(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : usual;
}

// What reading the file complains about; empty when it complains about nothing.
inline std::string complaint(const std::filesystem::path& path) {
  try {
    read_golden(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline void put_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

// The output of a shell command; the test fails when the command does.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  require(pipe != nullptr, "the test can start a shell");
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), count);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << output;
  return output;
}

// Runs `program` with h5py, numpy and the path as sys.argv[1].
inline std::string python(const std::string& program, const std::filesystem::path& path) {
  const std::filesystem::path script = path.string() + ".py";
  std::ofstream(script) << "import sys, h5py, numpy as np\nname = sys.argv[1]\n" << program;
  return output_of("/usr/bin/python3 '" + script.string() + "' '" + path.string() + "'");
}

}  // namespace shardproof
