#include <gtest/gtest.h>

#include <cmath>

#include "golden/golden_file.h"
#include "golden/sample_golden_test.h"
#include "golden/sample_tables_test.h"

namespace shardproof {
namespace {

const std::string kCase =
    "attention batch=2 heads=4/2 q=13 kv=11 dim=6/5 mask=causal dtype=bf16 data=normal seed=1f3a | "
    "ring_attention world=sim device=cpu mesh=cp:3 layout=zigzag schedule=77";

// A real run of a correct subject and a verdict that says an element of dk is wrong.
struct Failed {
  CaseReport report;
  Judgement failure;

  Failed() {
    Judge judge(sample_tables());
    const Property* property = sample_tables().property("matches_reference");
    report = judge.judge(parse_case(kCase, sample_tables().vocabulary()), std::span(&property, 1),
                         {.keep_shards = true, .keep_trace = true});
    failure.property = property;
    failure.verdict = {VerdictKind::kFalsified, std::string("dk is wrong\nas a test says\0", 27),
                       "dk", "over the worst-case bound",
                       // [1, 7, 1, 4] of [2, 11, 2, 6]
                       ((1 * 11 + 7) * 2 + 1) * 6 + 4, 2.5, 0.5, 0.25};
  }

  Golden golden() const { return make_golden(report, failure, {{"commit", "abc"}, {"seed", "7"}}); }
};

const GoldenTensor* find(const std::vector<GoldenTensor>& tensors, const std::string& name) {
  for (const GoldenTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(MakeGolden, KeepsEverythingThatTheFailureIsAbout) {
  const Golden golden = Failed().golden();
  EXPECT_EQ(golden.case_text, kCase);
  EXPECT_EQ(golden.property, "matches_reference");
  EXPECT_EQ(golden.verdict.message, "dk is wrong\nas a test says?");
  EXPECT_EQ(golden.verdict.element, 226);
  for (const char* name : {"q", "k", "v", "dout", "dlse"}) {
    ASSERT_NE(find(golden.inputs, name), nullptr) << name;
  }
  EXPECT_EQ(find(golden.inputs, "q")->dtype, DType::kBf16);
  for (const char* name : {"out", "lse", "dq", "dk", "dv"}) {
    const GoldenTensor* got = find(golden.got, name);
    const GoldenTensor* want = find(golden.want, name);
    const GoldenTensor* bound = find(golden.bound, name);
    ASSERT_TRUE(got != nullptr && want != nullptr && bound != nullptr) << name;
    EXPECT_EQ(want->dtype, DType::kF64);
    EXPECT_EQ(got->dtype, std::string(name) == "lse" ? DType::kF32 : DType::kBf16);
    for (std::size_t i = 0; i < got->values.size(); ++i) {
      EXPECT_LE(std::fabs(got->values[i] - want->values[i]), bound->values[i]) << name << i;
    }
  }
  ASSERT_EQ(golden.shards.size(), 3u);
  for (const KeptShard& shard : golden.shards) EXPECT_EQ(shard.tensor, "dk");
  EXPECT_FALSE(golden.trace.empty());
  EXPECT_NE(golden.contract.find("io=bf16\naccumulator=f32\n"), std::string::npos);
}

TEST(MakeGolden, TheRunOfARealFailureComesBack) {
  const Golden golden = Failed().golden();
  EXPECT_TRUE(same(parse_image(golden_image(golden)), golden));
}

TEST(MakeGolden, EveryOperationOfATraceIsKnown) {
  const Golden golden = Failed().golden();
  for (const Event& event : golden.trace) {
    EXPECT_EQ(golden_format::known_operation(event.operation), event.operation);
  }
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                "broadcast", "barrier", "send", "receive"}) {
    EXPECT_EQ(golden_format::known_operation(operation), operation);
  }
  EXPECT_EQ(golden_format::known_operation("teleport"), "other");
}

TEST(MakeGolden, ACaseWithoutARunKeepsItsInputs) {
  Failed failed;
  failed.report.base = nullptr;
  failed.failure.property = nullptr;
  const Golden golden = failed.golden();
  EXPECT_EQ(golden.property, "survives");
  EXPECT_TRUE(golden.got.empty());
  EXPECT_FALSE(golden.inputs.empty());
  EXPECT_TRUE(same(parse_image(golden_image(golden)), golden));
}

void expect_lines(const std::string& shown, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    EXPECT_NE(shown.find(line), std::string::npos) << "no '" << line << "' in\n" << shown;
  }
}

TEST(ShowGolden, SaysWhatIsWrongWhereAndHowMuch) {
  const Golden golden = Failed().golden();
  expect_lines(show(golden, sample_tables().vocabulary()),
               {"case       " + kCase, "property   matches_reference",
                "verdict    falsified: over the worst-case bound", "message    dk is wrong\n",
                "tensor     dk", "element    batch 1, token 7, head 1, feature 4, held by rank 2",
                "ring       cp rank 2 owns this key; its block was met in step 0: rank 2, "
                "step 1: rank 0, step 2: rank 1",
                "got        2.5\n", "want       0.5\n", "bound      0.25\n",
                "ratio      8 (error 2)", "  token (down, 1 a row) x head (across, 1 a column)",
                "  token (down, 1 a row) x feature (across, 1 a column)", "io=bf16", "commit=abc",
                "again      shardproof check '" + kCase + "'"});
}

TEST(ShowGolden, MapsTheErrorsOfTheTensor) {
  Golden golden = Failed().golden();
  for (GoldenTensor& tensor : golden.got) {
    if (tensor.name == "dk") tensor.values[226] = std::nan("");
  }
  const std::string shown = show(golden, sample_tables().vocabulary());
  // One element is over its bound: it shows once in each of the three maps, in the row of token 7.
  std::size_t maps = 0;
  for (std::size_t at = 0; (at = shown.find("\n       7 ", at)) != std::string::npos; ++at) {
    const std::size_t end = shown.find('\n', at + 1);
    maps += shown.substr(at, end - at).find('N') != std::string::npos;
  }
  EXPECT_EQ(maps, 3u) << shown;
  expect_lines(shown, {"       7 ....N.", "worst error/bound nan, 1 of 264 over"});
}

TEST(ShowGolden, NeedsNoTableToKnowTheCase) {
  Golden golden = Failed().golden();
  golden.case_text = "convolution q=3 | unheard_of";
  expect_lines(show(golden, sample_tables().vocabulary()),
               {"note       this program cannot run it: ", "convolution",
                "element    dimension 0 1, dimension 1 7", "ratio      8"});
}

TEST(ShowGolden, OfADeadlockShowsTheMessage) {
  Golden golden;
  golden.case_text = kCase;
  golden.property = "no_deadlock";
  golden.verdict.kind = VerdictKind::kDeadlocked;
  golden.verdict.message = "0 waits for 1\n1 waits for 0";
  const std::string shown = show(golden, sample_tables().vocabulary());
  expect_lines(shown,
               {"verdict    deadlocked\n", "message    0 waits for 1\n           1 waits for 0\n",
                "trace      0 events"});
  EXPECT_EQ(shown.find("element"), std::string::npos) << shown;
}

TEST(ShowGolden, SurvivesEveryDrawnGolden) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    EXPECT_FALSE(show(drawn_golden(seed), sample_tables().vocabulary()).empty());
  }
}

}  // namespace
}  // namespace shardproof
