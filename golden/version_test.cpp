// The promise to old files: one golden of every format version is kept in data/ and reads as it was
// written. `SHARDPROOF_SAMPLE=FILE golden_tests --gtest_filter=GoldenVersions.*` writes the sample
// of the current version; that of an older one is never written again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>

#include "golden/golden_file.h"
#include "golden/sample_golden_test.h"
#include "golden/sample_tables_test.h"

namespace shardproof {
namespace {

std::filesystem::path sample_path(int version) {
  return fmt::format("{}/golden/data/version_{}.h5", SHARDPROOF_SOURCE, version);
}

// Numbers of every kind: signed zeros, the ends of the range, below the normal, infinite, none.
GoldenTensor every_kind_of(DType dtype) {
  const Format& f = format(dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  const double ulp = std::ldexp(1.0, 1 - f.precision);
  std::vector<double> values{
      0.0, -0.0, -1.0 - ulp, f.maximum, 2 * f.eta(), f.minimum_normal(), -infinity, std::nan("")};
  for (double& value : values) {  // once through the storage, where a NaN may have one form
    std::uint64_t word = 0;
    store(golden_format::stored_as(dtype), &word, 0, value);
    value = load(golden_format::stored_as(dtype), &word, 0);
  }
  return {std::string(f.name), dtype, {2, 4}, values};
}

// What data/version_1.h5 holds: each part of a golden, of a case that fails today.
Golden sample_of_version_1() {
  Golden golden;
  golden.version = 1;
  golden.case_text =
      "mlp tokens=1 features=1 hidden=1 outputs=1 activation=relu dtype=f32 data=normal seed=0 | "
      "mlp_bias_on_every_rank world=sim device=cpu mesh=tp:2";
  golden.property = "matches_reference";
  golden.verdict = {VerdictKind::kFalsified,
                    "y[0, 0] is 1.5, want 0.5 ± 1e-07\nsecond line",
                    "y",
                    "over the worst-case bound",
                    0,
                    1.5,
                    0.5,
                    0x1p-23};
  golden.contract = "io=f32\naccumulator=f32\n";
  golden.environment = {{"version", "0.1.0"}, {"cpu", "a processor"}, {"seed", ""}};
  golden.inputs = {{"x", DType::kF32, {1, 1}, {0.25}},
                   {"scalar", DType::kF64, {}, {-3}},
                   {"nothing", DType::kF16, {2, 0, 3}, {}}};
  golden.got = {{"y", DType::kF32, {1, 1}, {1.5}}};
  for (DType dtype : all_dtypes()) golden.got.push_back(every_kind_of(dtype));
  golden.want = {{"y", DType::kF64, {1, 1}, {0.5}}};
  golden.bound = {{"y", DType::kF64, {1, 1}, {0x1p-23}}};
  golden.shards = {{"y", 0, {{0}, {0}}, {1.5}}, {"y", 1, {{0}, {}}, {}}};
  golden.trace = {{0, Phase::kForward, "all_reduce", "tp", -1, 4, 0, 0x1p-18},
                  {1, Phase::kBackward, "send", "", 0, 12, 0x1p-18, 0x1p-17}};
  return golden;
}

Golden sample(int version) {
  const std::map<int, Golden (*)()> samples{{1, sample_of_version_1}};
  return samples.at(version)();
}

TEST(GoldenVersions, EachReadsAsItWasWritten) {
  if (const char* path = std::getenv("SHARDPROOF_SAMPLE")) {
    write_golden(path, sample(Golden::kVersion));
  }
  for (int version = 1; version <= Golden::kVersion; ++version) {
    const Golden read = read_golden(sample_path(version));
    EXPECT_TRUE(same(read, sample(version))) << version;
    EXPECT_LE(std::filesystem::file_size(sample_path(version)), 20000U);
  }
}

TEST(GoldenVersions, EachCanBeShownAndItsCaseRun) {
  for (int version = 1; version <= Golden::kVersion; ++version) {
    const Golden read = read_golden(sample_path(version));
    const Vocabulary vocabulary = sample_tables().vocabulary();
    EXPECT_EQ(to_text(parse_case(read.case_text, vocabulary)), read.case_text);
    EXPECT_NE(show(read, vocabulary).find("element    token 0, feature 0, held by rank 0"),
              std::string::npos)
        << show(read, vocabulary);
  }
}

TEST(GoldenVersions, ANewerOneIsNamed) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(sample_path(1), folder / "x.h5");
  python("h5py.File(name, 'r+').attrs['format_version'] = np.int64(7)", folder / "x.h5");
  const std::string said = complaint(folder / "x.h5");
  EXPECT_NE(said.find("it has format version 7; this program reads version"), std::string::npos)
      << said;
  EXPECT_NE(said.find("a newer program may read it"), std::string::npos) << said;
}

// "got/y 0x1.8p+0" for every tensor, shard and column of numbers, "trace/axis 'tp' ''" for texts.
constexpr const char* kPrintEveryDataset = R"(
def look(path, item):
    if isinstance(item, h5py.Dataset):
        values = np.atleast_1d(item[()]).ravel()
        is_text = values.dtype.kind == 'S'
        print(path, *[repr(v.decode()) if is_text else float(v).hex() for v in values])
h5py.File(name).visititems(look)
)";

std::string text_of(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += " '" + text + "'";
  return result;
}

TEST(GoldenVersions, H5pyOpensEveryDataset) {
  const Golden golden = sample(1);
  std::map<std::string, std::vector<double>> numbers;
  for (std::size_t group = 0; group < golden_format::kTensorGroups.size(); ++group) {
    for (const GoldenTensor& tensor : golden_format::tensors_of(golden, group)) {
      numbers[fmt::format("{}/{}", golden_format::kTensorGroups[group], tensor.name)] =
          tensor.values;
    }
  }
  for (const KeptShard& shard : golden.shards) {
    const std::string place = "shards/" + golden_format::shard_name(shard);
    numbers[place + "/values"] = shard.values;
    for (std::size_t d = 0; d < shard.shard.size(); ++d) {
      numbers[fmt::format("{}/dimension_{}", place, d)] = {shard.shard[d].begin(),
                                                           shard.shard[d].end()};
    }
  }
  numbers["trace/rank"] = {0, 1};
  numbers["trace/peer"] = {-1, 0};
  numbers["trace/bytes"] = {4, 12};
  numbers["trace/start"] = {0, 0x1p-18};
  numbers["trace/end"] = {0x1p-18, 0x1p-17};
  const std::map<std::string, std::string> texts{
      {"message", text_of({"y[0, 0] is 1.5, want 0.5 ± 1e-07\\nsecond line"})},
      {"contract", text_of({"io=f32\\naccumulator=f32\\n"})},
      {"trace/phase", text_of({"forward", "backward"})},
      {"trace/operation", text_of({"all_reduce", "send"})},
      {"trace/axis", text_of({"tp", ""})}};
  const TemporaryFolder folder;
  std::filesystem::copy_file(sample_path(1), folder / "x.h5");
  std::istringstream lines(python(kPrintEveryDataset, folder / "x.h5"));
  std::size_t seen = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    std::istringstream words(line);
    std::string path, word;
    words >> path;
    if (texts.contains(path)) {
      EXPECT_EQ(line, path + texts.at(path));
      continue;
    }
    ASSERT_TRUE(numbers.contains(path)) << line;
    for (double want : numbers.at(path)) {
      ASSERT_TRUE(words >> word) << line;
      const double got = std::strtod(word.c_str(), nullptr);
      EXPECT_TRUE((got == want && std::signbit(got) == std::signbit(want)) ||
                  (std::isnan(got) && std::isnan(want)))
          << path << ": " << word << " is not " << want;
    }
    EXPECT_FALSE(words >> word) << line;
  }
  EXPECT_EQ(seen, numbers.size() + texts.size());
}

}  // namespace
}  // namespace shardproof
