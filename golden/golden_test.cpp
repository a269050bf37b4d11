#include "golden/golden.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "golden/golden_file.h"
#include "golden/sample_golden_test.h"

namespace shardproof {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

RC_GTEST_PROP(Golden, ComesBackBitForBit, (std::uint64_t seed)) {
  const Golden golden = drawn_golden(seed);
  RC_ASSERT(same(parse_image(golden_image(golden)), golden));
}

RC_GTEST_PROP(Golden, EqualGoldensAreByteIdenticalFiles, (std::uint64_t seed)) {
  const Golden golden = drawn_golden(seed);
  RC_ASSERT(golden_image(golden) == golden_image(golden));
}

RC_GTEST_PROP(Golden, CrossesThePipeOfTheReader, (std::uint64_t seed)) {
  const Golden golden = drawn_golden(seed);
  RC_ASSERT(same(from_bytes(to_bytes(golden)), golden));
}

TEST(Golden, DrawnGoldensHoldNumbersOfEveryKind) {
  int nan = 0, infinite = 0, subnormal = 0, empty = 0, scalar = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    for (const GoldenTensor& tensor : drawn_golden(seed).got) {
      empty += tensor.shape.elements() == 0;
      scalar += tensor.shape.rank() == 0;
      for (double value : tensor.values) {
        nan += std::isnan(value);
        infinite += std::isinf(value);
        subnormal += value != 0 && std::fabs(value) < format(tensor.dtype).minimum_normal();
      }
    }
  }
  for (int count : {nan, infinite, subnormal, empty, scalar}) EXPECT_GT(count, 10);
}

TEST(Golden, ComesBackFromDisk) {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto path = folder / "deeper/still/x.h5";
    write_golden(path, drawn_golden(seed));
    EXPECT_TRUE(same(read_golden(path), drawn_golden(seed))) << seed;
  }
  // Nothing but the file is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "deeper/still"), {}), 1);
}

// As at the top of a checkout, where the folder of the goldens' code is called that.
TEST(Golden, ComesBackWhereSomethingIsCalledGolden) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "golden");
  write_golden(folder / "x.h5", drawn_golden(1));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "golden/..");
  EXPECT_NO_THROW(EXPECT_TRUE(same(read_golden("x.h5"), drawn_golden(1))));
  std::filesystem::current_path(before);
}

TEST(Golden, AnEmptyOneComesBack) {
  const Golden golden;
  EXPECT_TRUE(same(parse_image(golden_image(golden)), golden));
}

TEST(Golden, LargeTensorsInManyChunksComeBack) {
  GoldenDraw draw(1);
  Golden golden;
  golden.got.push_back({"out", DType::kF32, {3, 700, 11, 20}, draw.values(DType::kF32, 462000)});
  golden.want.push_back({"out", DType::kF64, {462001}, draw.values(DType::kF64, 462001)});
  golden.verdict.message = std::string(200000, 'm');
  EXPECT_TRUE(same(parse_image(golden_image(golden)), golden));
}

TEST(Golden, AThousandRanksComeBack) {
  GoldenDraw draw(2);
  Golden golden;
  for (int rank = 0; rank < 1024; ++rank) {
    golden.shards.push_back({"out", rank, {{0, 1}, {rank}}, draw.values(DType::kF64, 2)});
  }
  EXPECT_TRUE(same(parse_image(golden_image(golden)), golden));
}

TEST(Golden, DifferentGoldensAreDifferentFiles) {
  Golden golden = drawn_golden(3);
  const auto image = golden_image(golden);
  golden.verdict.bound = std::nextafter(golden.verdict.bound, 1.0);
  EXPECT_NE(golden_image(golden), image);
}

TEST(Golden, RefusesWhatItCouldNotGiveBack) {
  const auto refused = [](auto change, const std::string& why) {
    Golden golden;
    golden.got.push_back({"out", DType::kBf16, {2}, {1, 2}});
    change(golden);
    try {
      golden_image(golden);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused([](Golden& g) { g.got[0].values[1] = 1.001; }, "is no bf16 number");
  refused([](Golden& g) { g.got[0].values.pop_back(); }, "has 1 values");
  refused([](Golden& g) { g.got[0].name = "a/b"; }, "no usable name");
  refused([](Golden& g) { g.got.push_back(g.got[0]); }, "is there twice");
  refused([](Golden& g) { g.version = 2; }, "format version 2 is not 1");
  refused([](Golden& g) { g.environment["a b"] = ""; }, "no usable name");
  refused([](Golden& g) { g.case_text = std::string(70000, 'x'); }, "too long");
  refused([](Golden& g) { g.contract = std::string("a\0", 2); }, "NUL");
  refused([](Golden& g) { g.trace.emplace_back().bytes = -1; }, "-1 bytes is impossible");
  refused([](Golden& g) { g.got[0].shape = {Index{1} << 40, Index{1} << 40}; }, "has 2 values");
}

// Numbers of which every bit matters, in each dtype.
std::vector<double> telling_numbers(DType dtype) {
  const Format& f = format(dtype);
  const double ulp = std::ldexp(1.0, 1 - f.precision);
  const double smallest = 2 * f.eta();
  return {0.0,      -0.0,      1.0,       -1.0 - ulp, f.maximum, f.minimum_normal(),
          smallest, -smallest, kInfinity, -kInfinity, kNan,      0.5 + ulp / 2};
}

TEST(Golden, H5pyReadsEveryDtypeAsNumbers) {
  const TemporaryFolder folder;
  Golden golden;
  for (DType dtype : all_dtypes()) {
    const auto numbers = telling_numbers(dtype);
    golden.got.push_back({std::string(format(dtype).name), dtype, {std::ssize(numbers)}, numbers});
  }
  write_golden(folder / "x.h5", golden);
  std::istringstream lines(python(R"(
for key, data in h5py.File(name)['got'].items():
    print(key, data.attrs['dtype'].decode(), data.dtype, *[float(x).hex() for x in data[:]])
)",
                                  folder / "x.h5"));
  int seen = 0;
  for (std::string line; std::getline(lines, line); ++seen) {
    std::istringstream words(line);
    std::string name, attribute, read_as, word;
    words >> name >> attribute >> read_as;
    EXPECT_EQ(name, attribute);
    EXPECT_EQ(read_as, name == "f64" ? "float64" : name == "f16" ? "float16" : "float32");
    for (double want : telling_numbers(dtype_from(name).value())) {
      ASSERT_TRUE(words >> word) << line;
      const double got = std::strtod(word.c_str(), nullptr);
      EXPECT_TRUE((got == want && std::signbit(got) == std::signbit(want)) ||
                  (std::isnan(got) && std::isnan(want)))
          << name << ": " << word << " is not " << want;
    }
  }
  EXPECT_EQ(seen, 5);
}

TEST(Golden, H5dumpPrintsNumbersAndTexts) {
  const TemporaryFolder folder;
  Golden golden = drawn_golden(4);
  golden.case_text = "attention q=3 | single world=sim";
  golden.verdict.message = "out[2] is wrong";
  golden.got = {{"narrow", DType::kBf16, {3}, {1.5, -0.0078125, 65536}},
                {"half", DType::kF16, {3}, {1.5, -0.25, 65504}}};
  golden.shards.clear();
  write_golden(folder / "x.h5", golden);
  const std::string dump = output_of("h5dump '" + (folder / "x.h5").string() + "'");
  for (const char* part :
       {"1.5, -0.0078125, 65536", "1.5, -0.25, 65504", "\"attention q=3 | single world=sim\"",
        "\"attention q=3\"", "\"single world=sim\"", "out[2] is wrong", "ATTRIBUTE \"bound\""}) {
    EXPECT_NE(dump.find(part), std::string::npos) << part << " is not in\n" << dump;
  }
}

TEST(Golden, EveryDatasetIsChecksummedAndCompressed) {
  const TemporaryFolder folder;
  write_golden(folder / "x.h5", drawn_golden(5));
  const std::string output = python(R"(
def look(path, item):
    if isinstance(item, h5py.Dataset) and item.size:
        assert item.fletcher32 and item.shuffle and item.compression == 'gzip', path
        print(path)
h5py.File(name).visititems(look)
)",
                                    folder / "x.h5");
  EXPECT_NE(output.find("trace/start"), std::string::npos);
}

TEST(Golden, AFailedWriteLeavesNothing) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "not a folder";
  EXPECT_THROW(write_golden(folder / "file/x.h5", Golden{}), Error);
  std::filesystem::create_directory(folder / "x.h5");
  EXPECT_THROW(write_golden(folder / "x.h5", Golden{}), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

}  // namespace
}  // namespace shardproof
