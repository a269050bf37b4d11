#include "harness/model/case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/model/drawn_case_test.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

const std::string kText =
    "attention batch=2 heads=4/2 q=33 kv=35 dim=16/8 mask=window:5,0 dtype=bf16 data=peaked "
    "seed=1f3a | ring_attention world=sim device=cpu mesh=tp:2,cp:4 layout=zigzag schedule=77";

Case parse(const std::string& text) { return parse_case(text, test_vocabulary()); }

// What the parser says about `text`; empty when it says nothing.
std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// kText with `from`, which must stand in it, replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kText;
  const auto at = text.find(from);
  require(at != std::string::npos, "the test replaces what is there");
  return text.replace(at, from.size(), to);
}

void expect_complaint(const std::string& text, const std::vector<std::string>& mentions) {
  const std::string said = complaint(text);
  EXPECT_FALSE(said.empty()) << "accepted: " << text;
  for (const std::string& mention : mentions) {
    EXPECT_NE(said.find(mention), std::string::npos)
        << '\'' << said << "' does not mention '" << mention << "'\nfor: " << text;
  }
}

RC_GTEST_PROP(CaseText, ComesBackExactly, ()) {
  const Case value = drawn_case();
  const std::string text = to_text(value);
  RC_ASSERT(text.find('\n') == std::string::npos);
  const Case back = parse(text);
  RC_ASSERT(to_text(back) == text);
  RC_ASSERT(back == value);
}

TEST(CaseText, ReadsEveryKey) {
  const Case value = parse(kText);
  const Problem& problem = value.problem;
  EXPECT_EQ(problem.op->name, "attention");
  EXPECT_EQ(problem.batch, 2);
  EXPECT_EQ(problem.heads, 4);
  EXPECT_EQ(problem.kv_heads, 2);
  EXPECT_EQ(problem.q, 33);
  EXPECT_EQ(problem.kv, 35);
  EXPECT_EQ(problem.dim, 16);
  EXPECT_EQ(problem.dim_v, 8);
  EXPECT_EQ(problem.mask.text(), "window:5,0");
  EXPECT_EQ(problem.dtype, DType::kBf16);
  EXPECT_EQ(problem.data, DataRecipe::kPeaked);
  EXPECT_EQ(problem.seed, 0x1f3au);
  EXPECT_EQ(value.placement.subject, "ring_attention");
  EXPECT_EQ(value.placement.mesh.text(), "tp:2,cp:4");
  EXPECT_EQ(value.placement.layout, Layout::kZigzag);
  EXPECT_EQ(value.placement.schedule, 0x77u);
  EXPECT_EQ(to_text(value), kText);
}

TEST(CaseText, KeysComeInAnyOrderAndSpacing) {
  const std::string text =
      "attention seed=1f3a\tdata=peaked dtype=bf16 mask=window:5,0  dim=16/8 heads=4/2 kv=35 q=33 "
      "batch=2|ring_attention schedule=77 layout=zigzag mesh=tp:2,cp:4 device=cpu world=sim ";
  EXPECT_EQ(parse(text), parse(kText));
}

TEST(CaseText, SelfAttentionHasAsManyKeysAsQueries) {
  const Case value = parse(
      "attention_layer batch=1 q=9 features=3 heads=2 dim=4 mask=window:7,0 dtype=f32 data=normal "
      "seed=1 | single world=sim device=cpu mesh=1");
  EXPECT_EQ(value.problem.kv, 9);
}

TEST(CaseText, OptionalKeysAtTheirDefaultAreLeftOut) {
  const Case value = parse(changed(" layout=zigzag schedule=77", ""));
  EXPECT_EQ(value.placement.layout, Layout::kContiguous);
  EXPECT_EQ(value.placement.schedule, 0u);
  EXPECT_EQ(to_text(value).find("layout"), std::string::npos);
  EXPECT_EQ(parse(changed("dim=16/8", "dim=16/16")), parse(changed("dim=16/8", "dim=16")));
}

TEST(CaseText, ViewsAndPiecesAreLeftOutWhenTheTensorsLieAsUsual) {
  const Case plain = parse(kText);
  EXPECT_EQ(plain.placement.views, Views::kDense);
  EXPECT_EQ(plain.placement.stored, 0);
  EXPECT_EQ(parse(changed("layout=zigzag", "layout=zigzag views=dense stored=0")), plain);
  const Case other = parse(changed("layout=zigzag", "layout=zigzag views=far stored=3"));
  EXPECT_EQ(other.placement.views, Views::kFar);
  EXPECT_EQ(other.placement.stored, 3);
  EXPECT_EQ(parse(to_text(other)), other);
  expect_complaint(changed("layout=zigzag", "views=round"), {"'views'", "round", "packed"});
  expect_complaint(changed("layout=zigzag", "stored=-1"), {"'stored'", "-1"});
}

TEST(CaseText, AnUnknownNameIsAnErrorThatListsTheChoices) {
  expect_complaint(changed("attention ", "atention "), {"atention", "attention", "mlp"});
  expect_complaint(changed("ring_attention", "ring"), {"'ring'", "single", "ring_attention"});
  expect_complaint(changed("world=sim", "world=nccl"), {"'world'", "nccl", "sim or mpi"});
  expect_complaint(changed("device=cpu", "device=gpu"), {"'device'", "gpu", "cpu or cuda"});
  expect_complaint(changed("mask=window:5,0", "mask=cusal"), {"'mask'", "cusal", "causal"});
  expect_complaint(changed("dtype=bf16", "dtype=float"), {"'dtype'", "float", "f32", "bf16"});
  expect_complaint(changed("data=peaked", "data=Peaked"), {"'data'", "Peaked", "peaked"});
  expect_complaint(changed("layout=zigzag", "layout=zag"), {"'layout'", "zag", "zigzag"});
  expect_complaint(changed("q=33", "bias=alibii q=33"), {"'bias'", "alibii", "alibi"});
}

TEST(CaseText, AnUnknownMissingOrRepeatedKeyIsNamed) {
  expect_complaint(changed("q=33", "length=33"), {"'length'", "batch", "kv", "seed"});
  expect_complaint(changed("q=33", "hidden=3 q=33"), {"'hidden'", "attention"});
  expect_complaint(changed("q=33 ", ""), {"'q'", "missing"});
  expect_complaint(changed(" seed=1f3a", ""), {"'seed'", "missing"});
  expect_complaint(changed(" mesh=tp:2,cp:4", ""), {"'mesh'", "missing"});
  expect_complaint(changed("q=33", "q=33 q=33"), {"'q'", "twice"});
  expect_complaint(changed("device=cpu", "device=cpu device=cpu"), {"'device'", "twice"});
  // A key on the wrong side of the bar is unknown there.
  expect_complaint(changed("device=cpu", "device=cpu q=33"), {"'q'", "placement", "mesh"});
  expect_complaint(changed("q=33", "q=33 device=cpu"), {"'device'", "attention"});
}

TEST(CaseText, AnImpossibleNumberIsAnErrorThatSaysWhatIsAllowed) {
  for (const char* number :
       {"-1", "x", "", "3.5", "3x", "0x3", "+3", "99999999999999999999", "1048577", " "}) {
    expect_complaint(changed("q=33", std::string("q=") + number), {"'q'", "0 to 1048576"});
  }
  for (const char* pair : {"0", "4/0", "4/", "/2", "4/2/1", "4:2", "-4/2"}) {
    expect_complaint(changed("heads=4/2", std::string("heads=") + pair), {"'heads'", "1"});
  }
  for (const char* seed : {"", "xyz", "-1", "0x1f", "11112222333344445", "1f3a "}) {
    if (std::string_view(seed) == "1f3a ") continue;  // trailing space is no part of the value
    expect_complaint(changed("seed=1f3a", std::string("seed=") + seed), {"'seed'", "hexadecimal"});
  }
  for (const char* scale : {"0", "-1", "nan", "inf", "1e31", "", "1.5x"}) {
    expect_complaint(changed("q=33", std::string("q=33 scale=") + scale), {"'scale'", "above 0"});
  }
  EXPECT_EQ(parse(changed("seed=1f3a", "seed=ffffffffffffffff")).problem.seed, ~0ull);
  EXPECT_EQ(parse(changed("q=33", "scale=0.1 q=33")).problem.scale, 0.1);
}

TEST(CaseText, AnImpossibleMaskIsAnErrorThatSaysItsForm) {
  for (const char* mask : {"window", "window:5", "window:5,0,1", "window:"}) {
    expect_complaint(changed("mask=window:5,0", std::string("mask=") + mask),
                     {"'mask'", "window:left,right"});
  }
  for (const char* mask : {"causal:", "causal:1", "padding:3,", "padding:3,1", "none:"}) {
    expect_complaint(changed("mask=window:5,0", std::string("mask=") + mask), {"'mask'", "form"});
  }
  expect_complaint(changed("window:5,0", "window:-5,0"), {"'mask'", "-5", "whole number"});
  expect_complaint(changed("window:5,0", "window:5,"), {"'mask'", "''", "whole number"});
  expect_complaint(changed("window:5,0", "window:,5"), {"'mask'", "''", "whole number"});
  expect_complaint(changed("window:5,0", "window:5:0"), {"'mask'", "whole number"});
  expect_complaint(changed("window:5,0", "window:36,0"), {"window", "left", "36", "0 to 35"});
  expect_complaint(changed("window:5,0", "random:101"), {"random", "percent", "101", "0 to 100"});
  expect_complaint(changed("window:5,0", "documents:0,0"), {"documents", "length", "1 to 35"});
}

TEST(CaseText, AnImpossibleMeshIsAnErrorThatSaysWhatIsAllowed) {
  for (const char* mesh : {"", "2", "cp", "cp:", "cp:4,", ",cp:4", "cp:4,cp:2", "xp:2", "cp=4",
                           "cp4", "tp:2 cp:4", "tp:2,cp:4,pp:2"}) {
    const std::string said = complaint(changed("mesh=tp:2,cp:4", std::string("mesh=") + mesh));
    EXPECT_NE(said, "") << mesh;
    EXPECT_TRUE(said.find("'mesh'") != std::string::npos ||
                said.find("key=value") != std::string::npos)
        << said;
  }
  expect_complaint(changed("mesh=tp:2,cp:4", "mesh=cp:0"), {"'mesh'", "0"});
  expect_complaint(changed("mesh=tp:2,cp:4", "mesh=cp:4097"), {"'mesh'", "4096 ranks"});
  expect_complaint(changed("mesh=tp:2,cp:4", "mesh=tp:100,cp:41"), {"'mesh'", "4096 ranks"});
  EXPECT_EQ(parse(changed("mesh=tp:2,cp:4", "mesh=1")).placement.mesh.ranks(), 1);
  EXPECT_EQ(parse(changed("mesh=tp:2,cp:4", "mesh=cp:4,tp:2")).placement.mesh.text(), "cp:4,tp:2");
}

TEST(CaseText, AnImpossibleEditIsAnError) {
  for (const char* edit :
       {"from", "from:", "from:-1", "from:x", "hidden_nan:3", "later:3", "none:"}) {
    expect_complaint(changed("seed=1f3a", std::string("seed=1f3a edit=") + edit), {"'edit'"});
  }
  EXPECT_EQ(parse(changed("seed=1f3a", "seed=1f3a edit=from:3")).problem.edit_at, 3);
}

TEST(CaseText, RotaryPositionsAreReadAndNeedEvenDims) {
  const std::string text = changed("dtype=bf16", "rotary=10000 positions=cached:7 dtype=bf16");
  const Problem problem = parse(text).problem;
  EXPECT_EQ(problem.rotary, 10000);
  EXPECT_EQ(problem.positions, PositionIds::kCached);
  EXPECT_EQ(problem.position_offset, 7);
  EXPECT_EQ(to_text(parse(text)), text);
  const auto with = [](const std::string& keys) {
    return changed("dtype=bf16", keys + " dtype=bf16");
  };
  EXPECT_EQ(parse(with("rotary=10")).problem.positions, PositionIds::kArange);
  for (const char* positions :
       {"cached", "offset:", "offset:-1", "arange:1", "permuted:3", "last"}) {
    expect_complaint(with(std::string("rotary=10 positions=") + positions), {"'positions'"});
  }
  expect_complaint(with("rotary=0.5"), {"rotary=0.5", "at least 1"});
  expect_complaint(with("positions=permuted"), {"rotary"});
  expect_complaint(with("rotary=10 positions=documents"), {"documents", "window:5,0"});
  expect_complaint(changed("dim=16/8", "dim=15/8 rotary=10"), {"dim=15", "even"});
}

TEST(CaseText, APartThatIsMissingOrTooMuchIsNamed) {
  expect_complaint("", {"|"});
  expect_complaint(changed(" | ", " "), {"'|'"});
  expect_complaint(kText + " | single", {"'|'"});
  expect_complaint("| ring_attention", {"operator"});
  expect_complaint(kText.substr(0, kText.find('|') + 1), {"subject"});
  expect_complaint(kText + " garbage", {"garbage", "key=value"});
  expect_complaint(kText + "\nq", {"'q'", "key=value"});
}

TEST(CaseText, AHeadCountThatDoesNotDivideBreaksARule) {
  expect_complaint(changed("heads=4/2", "heads=4/3"), {"heads"});
  Case value = parse(kText);
  EXPECT_EQ(broken_rule(value), "");
  value.problem.kv_heads = 3;
  EXPECT_NE(broken_rule(value), "");
}

TEST(CaseText, DamagedTextIsAnErrorOrACaseThatComesBack) {
  std::mt19937_64 random(3);
  const std::string letters = "0123456789abcxyz=:,/|. -_\n\t\x01\xff";
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = kText;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = letters[random() % letters.size()];
          break;
        case 1:
          text.insert(at, 1, letters[random() % letters.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 4);
      }
    }
    try {
      const Case value = parse(text);
      ++accepted;
      ASSERT_EQ(parse(to_text(value)), value) << text;
    } catch (const Error& error) {
      ASSERT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(accepted, 200);  // most edits of digits leave a valid case
}

}  // namespace
}  // namespace shardproof
