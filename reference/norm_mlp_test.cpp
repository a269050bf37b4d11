// The values of norm_mlp: finite differences, closed forms, an independent implementation, edges.
#include "reference/norm_mlp.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <string>

#include "reference/bound_check.h"
#include "reference/emulation.h"
#include "reference/tensor_dump.h"
#include "reference/wide_inputs.h"

namespace shardproof {
namespace {

constexpr Norm kNorms[] = {Norm::kRms, Norm::kLayer};

Problem problem_for(Norm norm, DType dtype = DType::kF64) {
  Problem p;
  p.op = &norm_mlp_operator();
  p.tokens = 5;
  p.features = 6;
  p.hidden = 7;
  p.outputs = 3;
  p.norm = norm;
  p.epsilon = 0.25;
  p.dtype = dtype;
  p.seed = 17;
  return p;
}

// z of one token, from the definition.
Wide normed(const Problem& p, Inputs& in, std::size_t token) {
  const auto count = static_cast<std::size_t>(p.features);
  const Wide x(&in["x"][token * count], &in["x"][token * count] + count);
  const auto features = static_cast<long double>(count);
  const long double mean =
      p.norm == Norm::kLayer ? std::accumulate(x.begin(), x.end(), 0.0L) / features : 0;
  long double spread = 0;
  for (long double each : x) spread += (each - mean) * (each - mean) / features;
  Wide z;
  for (std::size_t k = 0; k < count; ++k) {
    z.push_back((x[k] - mean) / std::sqrt(spread + effective_epsilon(p)) * in["gamma"][k]);
    if (p.norm == Norm::kLayer) z[k] += in["beta"][k];
  }
  return z;
}

// y, one element at a time.
Wide forward(const Problem& p, Inputs& in) {
  const auto outputs = static_cast<std::size_t>(p.outputs);
  const auto hidden = static_cast<std::size_t>(p.hidden);
  Wide y;
  for (std::size_t token = 0; token < static_cast<std::size_t>(p.tokens); ++token) {
    const Wide z = normed(p, in, token);
    Wide row(outputs);
    for (std::size_t j = 0; j < hidden; ++j) {
      long double h = 0;
      for (std::size_t k = 0; k < z.size(); ++k) h += z[k] * in["w1"][k * hidden + j];
      for (std::size_t o = 0; o < outputs; ++o) row[o] += h * in["w2"][j * outputs + o];
    }
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

long double loss(const Problem& p, Inputs& in) {
  const Wide y = forward(p, in);
  return std::inner_product(y.begin(), y.end(), in["dy"].begin(), 0.0L);
}

TEST(NormMlp, OutputsFollowTheDefinition) {
  for (Norm norm : kNorms) {
    const Problem p = problem_for(norm);
    Inputs inputs = wide_inputs_of(p);
    const Wide y = forward(p, inputs);
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(expected.find("y")->want[i], static_cast<double>(y[i]), 1e-15);
    }
  }
}

TEST(NormMlp, GradientsAreThoseOfFiniteDifferences) {
  const long double h = 1e-6L;
  for (Norm norm : kNorms) {
    const Problem p = problem_for(norm);
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

// Rows of the gradient are orthogonal to what the norm takes no notice of: to x, but for epsilon,
// and to a common offset.
TEST(NormMlp, GradientsDoNotMoveAlongWhatTheNormForgets) {
  for (Norm norm : kNorms) {
    Problem p = problem_for(norm);
    p.epsilon = 1e-12;
    const Inputs inputs = wide_inputs_of(p);
    const std::vector<double> dx = p.op->evaluate(p, {}, Effort::kValues).find("dx")->want;
    for (std::size_t first = 0; first < dx.size(); first += 6) {
      long double along_x = 0;
      long double along_offset = 0;
      for (std::size_t i = first; i < first + 6; ++i) {
        along_x += dx[i] * inputs.find("x")->second[i];
        along_offset += dx[i];
      }
      EXPECT_NEAR(static_cast<double>(along_x), 0, 1e-10);
      if (norm == Norm::kLayer) {
        EXPECT_NEAR(static_cast<double>(along_offset), 0, 1e-14);
      }
    }
  }
}

// sum_k gamma dgamma + beta dbeta = sum dz z = sum dy y: the layers are linear.
TEST(NormMlp, GradientsOfGammaAndBetaAddUpToThatOfTheOutput) {
  for (Norm norm : kNorms) {
    const Problem p = problem_for(norm);
    Inputs inputs = wide_inputs_of(p);
    const Expected expected = p.op->evaluate(p, {}, Effort::kValues);
    long double sum = 0;
    for (const auto& name : {"gamma", "beta"}) {
      const ExpectedTensor* gradient = expected.find(std::string("d") + name);
      EXPECT_EQ(gradient != nullptr, norm == Norm::kLayer || std::string(name) == "gamma");
      for (std::size_t k = 0; gradient && k < gradient->want.size(); ++k) {
        sum += gradient->want[k] * inputs[name][k];
      }
    }
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(loss(p, inputs)), 1e-13);
  }
}

TEST(NormMlp, AConstantRowLeavesBetaAlone) {
  Problem p = problem_for(Norm::kLayer);
  p.data = DataRecipe::kConstantRows;
  Inputs inputs = wide_inputs_of(p);
  EXPECT_NE(inputs["x"][0], inputs["x"][6]);
  const std::vector<double> y = p.op->evaluate(p, {}, Effort::kValues).find("y")->want;
  for (std::size_t i = 3; i < y.size(); ++i) EXPECT_NEAR(y[i], y[i - 3], 1e-15);
}

// Writes a problem for independent_norm_mlp.py, as if its norm were `claimed`.
std::string dumped(const Problem& p, Norm claimed, const std::string& folder) {
  const std::string path = folder + "/" + std::to_string(static_cast<int>(p.norm)) +
                           std::to_string(static_cast<int>(claimed));
  TensorDump dump(path);
  dump.add("problem", {static_cast<double>(p.tokens), static_cast<double>(p.features),
                       static_cast<double>(p.hidden), static_cast<double>(p.outputs),
                       static_cast<double>(claimed == Norm::kLayer), effective_epsilon(p)});
  dump.add(p, p.op->evaluate(p, {}, Effort::kAll));
  return path;
}

TEST(NormMlp, AnIndependentImplementationAgrees) {
  const std::string folder = testing::TempDir() + "shardproof_norm_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string command =
      "/usr/bin/python3 " + std::string(SHARDPROOF_SOURCE) + "/reference/independent_norm_mlp.py";
  std::string files;
  for (Norm norm : kNorms) {
    Problem p = problem_for(norm, DType::kF32);
    p.features = 31;
    files += " " + dumped(p, norm, folder);
  }
  EXPECT_EQ(std::system((command + files).c_str()), 0);
  // It must notice a wrong answer.
  const std::string wrong = dumped(problem_for(Norm::kLayer, DType::kF32), Norm::kRms, folder);
  EXPECT_NE(std::system((command + " " + wrong + " > /dev/null").c_str()), 0);
  std::filesystem::remove_all(folder);
}

TEST(NormMlp, HowItIsCutChangesNoValue) {
  const Problem p = problem_for(Norm::kLayer, DType::kF32);
  Dice dice(1);
  Contract contract;
  const Expected whole = p.op->evaluate(p, contract, Effort::kAll);
  contract.partitions.summed = dice.partition(p.hidden, 4);
  contract.partitions.queries = dice.partition(p.tokens, 3);
  const Expected cut = p.op->evaluate(p, contract, Effort::kAll);
  for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
    for (std::size_t i = 0; i < whole.tensors[t].want.size(); ++i) {
      EXPECT_NEAR(whole.tensors[t].want[i], cut.tensors[t].want[i], 1e-14);
    }
  }
  for (const auto& name : {"y", "dx", "dgamma", "dbeta"}) {
    EXPECT_GT(cut.find(name)->worst[0], whole.find(name)->worst[0]) << name;
  }
  EXPECT_EQ(cut.find("dw1")->worst, whole.find("dw1")->worst);
}

TEST(NormMlp, EffortsAgreeAndLeaveOutWhatIsNotAsked) {
  const Problem p = problem_for(Norm::kLayer, DType::kBf16);
  Contract contract;
  contract.precision.io = contract.precision.middle = DType::kBf16;
  expect_efforts_agree(p, contract);
}

TEST(NormMlp, ExtentsMayBeZero) {
  for (int zero = 0; zero < 32; ++zero) {
    Problem p = problem_for(zero & 16 ? Norm::kRms : Norm::kLayer, DType::kF32);
    if (zero & 1) p.tokens = 0;
    if (zero & 2) p.features = 0;
    if (zero & 4) p.hidden = 0;
    if (zero & 8) p.outputs = 0;
    Contract contract;
    contract.partitions.summed = contract.partitions.queries = Partition(3);
    for (Index h = 0; h < p.hidden; ++h) contract.partitions.summed[1].push_back(h);
    for (Index t = 0; t < p.tokens; ++t) contract.partitions.queries[2].push_back(t);
    const Expected expected = p.op->evaluate(p, contract, Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      EXPECT_EQ(static_cast<Index>(tensor.want.size()), tensor.spec.shape.elements());
      for (double want : tensor.want) EXPECT_TRUE(std::isfinite(want));
      for (double bound : tensor.likely) EXPECT_LT(bound, 1e-3);
    }
  }
}

TEST(NormMlp, TensorsComeInTheirOrder) {
  const auto names = [](Norm norm) {
    const Problem p = problem_for(norm);
    std::string result;
    for (const TensorSpec& spec : p.op->tensors(p)) result += std::string(spec.name) + " ";
    for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kValues).tensors) {
      result += std::string(tensor.spec.name) + " ";
    }
    return result;
  };
  EXPECT_EQ(names(Norm::kLayer),
            "x gamma beta w1 w2 dy y dx dgamma dbeta dw1 dw2 y dx dgamma dbeta dw1 dw2 ");
  EXPECT_EQ(names(Norm::kRms), "x gamma w1 w2 dy y dx dgamma dw1 dw2 y dx dgamma dw1 dw2 ");
}

TEST(NormMlp, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for(kNorms[dice.below(2)]);
    for (Index* extent : {&p.tokens, &p.features, &p.hidden, &p.outputs, &p.edit_at}) {
      *extent = dice.below(9) - 3;
    }
    p.epsilon = static_cast<double>(dice.below(5) - 2);
    p.edit = static_cast<Edit>(dice.below(3));
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    const Problem once = p;
    p.op->repair(p);
    EXPECT_EQ(p, once);
  }
}

TEST(NormMlp, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for(Norm::kRms);
  p.hidden = -1;
  EXPECT_EQ(p.op->broken_rule(p), "hidden is -1; allowed: 0 and more");
  p.hidden = 1;
  p.epsilon = 0;
  EXPECT_EQ(p.op->broken_rule(p), "epsilon is 0; allowed: 1e-12 to 1");
}

}  // namespace
}  // namespace shardproof
