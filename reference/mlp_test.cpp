// The values of the mlp: finite differences, an independent implementation, edges.
#include "reference/mlp.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "reference/bound_check.h"
#include "reference/emulation.h"
#include "reference/tensor_dump.h"
#include "reference/wide_inputs.h"

namespace shardproof {
namespace {

Problem problem_for(Activation activation, bool gated, DType dtype = DType::kF64) {
  Problem p;
  p.op = &mlp_operator();
  p.tokens = 5;
  p.features = 4;
  p.hidden = 7;
  p.outputs = 3;
  p.activation = activation;
  p.gated = gated;
  p.dtype = dtype;
  p.seed = 17;
  return p;
}

constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kSilu};

long double activated(Activation activation, long double z) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(z, 0.0L);
    case Activation::kGelu:
      return z / 2 * (1 + std::erf(z / std::sqrt(2.0L)));
    case Activation::kGeluTanh:
      return z / 2 *
             (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846264L) *
                            (z + static_cast<long double>(0.044715) * z * z * z)));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
  }
  return 0;
}

// y from the definition, one element at a time.
Wide forward(const Problem& p, Inputs& in) {
  Wide y;
  for (Index t = 0; t < p.tokens; ++t) {
    Wide row(in["b2"]);
    for (Index h = 0; h < p.hidden; ++h) {
      const auto unit = static_cast<std::size_t>(h);
      long double z = in["b1"][unit];
      long double up = p.gated ? in["bg"][unit] : 1;
      for (Index f = 0; f < p.features; ++f) {
        const long double x = in["x"][static_cast<std::size_t>(t * p.features + f)];
        const auto weight = static_cast<std::size_t>(f * p.hidden + h);
        z += x * in["w1"][weight];
        if (p.gated) up += x * in["wg"][weight];
      }
      for (std::size_t o = 0; o < row.size(); ++o) {
        row[o] += activated(p.activation, z) * up * in["w2"][unit * row.size() + o];
      }
    }
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

long double loss(const Problem& p, Inputs& in) {
  const Wide y = forward(p, in);
  return std::inner_product(y.begin(), y.end(), in["dy"].begin(), 0.0L);
}

TEST(Mlp, OutputsFollowTheDefinition) {
  for (Activation activation : kActivations) {
    for (bool gated : {false, true}) {
      const Problem p = problem_for(activation, gated);
      Inputs inputs = wide_inputs_of(p);
      const Wide y = forward(p, inputs);
      const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(expected.find("y")->want[i], static_cast<double>(y[i]), 1e-15);
      }
    }
  }
}

TEST(Mlp, GradientsAreThoseOfFiniteDifferences) {
  const long double h = 1e-6L;
  for (Activation activation : kActivations) {
    for (bool gated : {false, true}) {
      const Problem p = problem_for(activation, gated);
      Inputs inputs = wide_inputs_of(p);
      const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
      for (auto& [name, values] : inputs) {
        if (name == "dy") continue;
        const std::vector<double>& gradient = expected.find("d" + name)->want;
        expect_differences(
            values, gradient, [&] { return loss(p, inputs); }, h, 1e-9, name + to_text(p));
      }
    }
  }
}

// Writes a problem for independent_mlp.py, as if its activation were number `claimed`.
std::string dumped(const Problem& p, int claimed, const std::string& folder) {
  const std::string path = folder + "/" + std::to_string(claimed) + (p.gated ? "g" : "");
  TensorDump dump(path);
  dump.add("problem", {static_cast<double>(p.tokens), static_cast<double>(p.features),
                       static_cast<double>(p.hidden), static_cast<double>(p.outputs),
                       static_cast<double>(claimed), static_cast<double>(p.gated)});
  dump.add(p, p.op->evaluate(p, {}, Effort::kAll));
  return path;
}

TEST(Mlp, AnIndependentImplementationAgrees) {
  const std::string folder = testing::TempDir() + "shardproof_mlp_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string command =
      "/usr/bin/python3 " + std::string(SHARDPROOF_SOURCE) + "/reference/independent_mlp.py";
  std::string files;
  for (Activation activation : kActivations) {
    for (bool gated : {false, true}) {
      Problem p = problem_for(activation, gated, DType::kF32);
      p.hidden = 31;
      files += " " + dumped(p, static_cast<int>(activation), folder);
    }
  }
  EXPECT_EQ(std::system((command + files).c_str()), 0);
  // It must notice a wrong answer.
  const Problem gelu = problem_for(Activation::kGelu, false, DType::kF32);
  const std::string wrong = dumped(gelu, static_cast<int>(Activation::kGeluTanh), folder);
  EXPECT_NE(std::system((command + " " + wrong + " > /dev/null").c_str()), 0);
  std::filesystem::remove_all(folder);
}

TEST(Mlp, HowTheHiddenUnitsAreCutChangesNoValue) {
  const Problem p = problem_for(Activation::kSilu, true, DType::kF32);
  Dice dice(1);
  Contract contract;
  const Expected whole = p.op->evaluate(p, contract, Effort::kAll);
  contract.partitions.summed = dice.partition(p.hidden, 4);
  const Expected cut = p.op->evaluate(p, contract, Effort::kAll);
  for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
    for (std::size_t i = 0; i < whole.tensors[t].want.size(); ++i) {
      EXPECT_NEAR(whole.tensors[t].want[i], cut.tensors[t].want[i], 1e-14);
    }
  }
  EXPECT_GT(cut.find("y")->worst[0], whole.find("y")->worst[0]);
  EXPECT_EQ(cut.find("dw1")->worst, whole.find("dw1")->worst);
}

TEST(Mlp, EffortsAgreeAndLeaveOutWhatIsNotAsked) {
  const Problem p = problem_for(Activation::kGelu, false, DType::kBf16);
  Contract contract;
  contract.precision.io = contract.precision.middle = DType::kBf16;
  expect_efforts_agree(p, contract);
}

TEST(Mlp, ExtentsMayBeZero) {
  for (int zero = 0; zero < 16; ++zero) {
    Problem p = problem_for(Activation::kGelu, true, DType::kF32);
    if (zero & 1) p.tokens = 0;
    if (zero & 2) p.features = 0;
    if (zero & 4) p.hidden = 0;
    if (zero & 8) p.outputs = 0;
    Contract contract;
    contract.partitions.summed = Partition(3);
    for (Index h = 0; h < p.hidden; ++h) contract.partitions.summed[1].push_back(h);
    const Expected expected = p.op->evaluate(p, contract, Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      EXPECT_EQ(static_cast<Index>(tensor.want.size()), tensor.spec.shape.elements());
      for (double bound : tensor.likely) EXPECT_LT(bound, 1e-3);
    }
    const bool only_bias = p.hidden == 0 && p.tokens > 0 && p.outputs > 0;
    if (!only_bias) continue;
    EXPECT_EQ(expected.find("y")->want[0], whole_tensor(p, p.op->tensors(p)[6])[0]);
  }
}

// All rows of y are then the same sum, with the same error.
TEST(Mlp, TheRmsTestNeedsTokensThatDiffer) {
  Problem p = problem_for(Activation::kGelu, false, DType::kF32);
  p.tokens = p.features = p.hidden = p.outputs = 64;
  const auto applies = [&] {
    return p.op->evaluate(p, {}, Effort::kLikely).find("y")->rms_applies;
  };
  EXPECT_TRUE(applies());
  p.features = 0;
  EXPECT_FALSE(applies());
  p.features = 64;
  p.hidden = 0;
  EXPECT_FALSE(applies());
}

TEST(Mlp, TensorsComeInTheirOrder) {
  std::string names;
  const Problem p = problem_for(Activation::kRelu, true);
  for (const TensorSpec& spec : p.op->tensors(p)) names += std::string(spec.name) + " ";
  EXPECT_EQ(names, "x w1 b1 wg bg w2 b2 dy y dx dw1 db1 dwg dbg dw2 db2 ");
  std::string expected_names;
  for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kValues).tensors) {
    expected_names += std::string(tensor.spec.name) + " ";
  }
  EXPECT_EQ(expected_names, "y dx dw1 db1 dwg dbg dw2 db2 ");
}

TEST(Mlp, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for(Activation::kRelu, dice.chance(50));
    for (Index* extent : {&p.tokens, &p.features, &p.hidden, &p.outputs, &p.edit_at}) {
      *extent = dice.below(9) - 3;
    }
    p.edit = static_cast<Edit>(dice.below(3));
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    Problem again = p;
    again.op->repair(again);
    EXPECT_EQ(again, p);
  }
}

TEST(Mlp, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for(Activation::kRelu, false);
  p.hidden = -1;
  EXPECT_EQ(p.op->broken_rule(p), "hidden is -1; allowed: 0 and more");
  p.hidden = 1;
  p.edit = Edit::kFrom;
  p.edit_at = 6;
  EXPECT_EQ(p.op->broken_rule(p), "the position of edit=from is 6; allowed: 0 to 5");
}

}  // namespace
}  // namespace shardproof
