// The values of the training step: finite differences, closed forms, edges.
#include "reference/training_step.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "harness/model/case.h"
#include "reference/activation_emulation.h"
#include "reference/emulation.h"
#include "reference/wide_inputs.h"

namespace shardproof {
namespace {

Problem problem_for(bool tied, DType dtype = DType::kF64) {
  Problem p;
  p.op = &training_step_operator();
  p.tokens = 5;
  p.features = 4;
  p.hidden = 7;
  p.outputs = tied ? 4 : 3;
  p.activation = Activation::kSilu;
  p.tied = tied;
  p.micro_batches = 2;
  p.dtype = dtype;
  p.seed = 17;
  return p;
}

std::vector<double> values(const Problem& p, std::string_view name) {
  return p.op->evaluate(p, {}, Effort::kValues).find(name)->want;
}

// sum(dy * y) from the definition, one element at a time.
long double loss(const Problem& p, Inputs& in) {
  const auto at = [&](const char* name, Index row, Index columns, Index column) {
    return in[name][static_cast<std::size_t>(row * columns + column)];
  };
  long double sum = 0;
  for (Index t = 0; t < p.tokens; ++t) {
    for (Index o = 0; o < p.outputs; ++o) {
      long double y = at("b2", 0, p.outputs, o);
      for (Index h = 0; h < p.hidden; ++h) {
        long double z = 0;
        for (Index f = 0; f < p.features; ++f) {
          z += at("x", t, p.features, f) * at("w1", f, p.hidden, h);
        }
        const long double second = p.tied ? at("w1", o, p.hidden, h) : at("w2", h, p.outputs, o);
        y += activated(p.activation, z) * second;
      }
      sum += y * at("dy", t, p.outputs, o);
    }
  }
  return sum;
}

TEST(TrainingStep, GradientsAreThoseOfFiniteDifferences) {
  const long double h = 1e-6L;
  for (bool tied : {false, true}) {
    const Problem p = problem_for(tied);
    Inputs inputs = wide_inputs_of(p);
    for (const char* name : {"x", "w1", "w2", "b2"}) {
      if (tied && std::string(name) == "w2") continue;
      const std::vector<double> gradient = values(p, std::string("d") + name);
      expect_differences(
          inputs[name], gradient, [&] { return loss(p, inputs); }, h, 1e-9, name + to_text(p));
    }
  }
}

TEST(TrainingStep, OutputsFollowTheDefinition) {
  for (bool tied : {false, true}) {
    const Problem p = problem_for(tied);
    Inputs inputs = wide_inputs_of(p);
    const std::vector<double> y = values(p, "y");
    const long double sum = std::inner_product(y.begin(), y.end(), inputs["dy"].begin(), 0.0L);
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(loss(p, inputs)), 1e-13);
  }
}

double length_of_gradients(const Problem& p) {
  double squares = 0;
  for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kValues).tensors) {
    if (tensor.spec.token_dimension == 0 || tensor.spec.name == "norm") continue;
    for (double value : tensor.want) squares += value * value;
  }
  return std::sqrt(squares);
}

TEST(TrainingStep, TheNormCountsEveryParameterOnce) {
  for (bool tied : {false, true}) {
    const Problem p = problem_for(tied);
    EXPECT_NEAR(values(p, "norm")[0], length_of_gradients(p), 1e-13);
  }
}

TEST(TrainingStep, ClippedGradientsHaveTheLargestNormAndTheirOldDirection) {
  for (bool tied : {false, true}) {
    Problem p = problem_for(tied);
    const double norm = values(p, "norm")[0];
    const std::vector<double> before = values(p, "dw1");
    p.max_norm = norm / 4;
    EXPECT_EQ(values(p, "norm")[0], norm);
    EXPECT_NEAR(length_of_gradients(p), norm / 4, 1e-13);
    const std::vector<double> after = values(p, "dw1");
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i] / 4, 1e-14);
    p.max_norm = norm * 2;
    EXPECT_EQ(values(p, "dw1"), before);
  }
}

// One weight each: y = x w1 w2 with relu, all positive or none.
TEST(TrainingStep, OneUnitHasTheGradientsOfAProduct) {
  Problem p = problem_for(false);
  p.activation = Activation::kRelu;
  p.tokens = p.features = p.hidden = p.outputs = 1;
  for (p.seed = 0; p.seed < 20; ++p.seed) {
    Inputs in = wide_inputs_of(p);
    const auto [x, w1, w2, dy] = std::tuple{in["x"][0], in["w1"][0], in["w2"][0], in["dy"][0]};
    const bool open = x * w1 > 0;
    EXPECT_NEAR(values(p, "dw1")[0], static_cast<double>(open ? x * w2 * dy : 0), 1e-15);
    EXPECT_NEAR(values(p, "dw2")[0], static_cast<double>(open ? x * w1 * dy : 0), 1e-15);
    EXPECT_EQ(values(p, "db2")[0], static_cast<double>(dy));
  }
}

TEST(TrainingStep, WithoutTokensNothingIsLearnedAndNothingClipped) {
  for (double max_norm : {0.0, 1.0}) {
    Problem p = problem_for(true, DType::kF32);
    p.tokens = 0;
    p.max_norm = max_norm;
    const Expected expected = p.op->evaluate(p, {}, Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      for (double value : tensor.want) EXPECT_EQ(value, 0) << tensor.spec.name;
      for (double worst : tensor.worst) EXPECT_EQ(worst, 0) << tensor.spec.name;
    }
  }
}

TEST(TrainingStep, HowTokensAndUnitsAreCutChangesNoValue) {
  for (bool tied : {false, true}) {
    Problem p = problem_for(tied, DType::kF32);
    p.max_norm = 0.5;
    Dice dice(1);
    Contract contract;
    const Expected whole = p.op->evaluate(p, contract, Effort::kAll);
    contract.partitions.summed = dice.partition(p.hidden, 4);
    contract.partitions.queries = dice.partition(p.tokens, 3);
    p.micro_batches = 4;
    const Expected cut = p.op->evaluate(p, contract, Effort::kAll);
    for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
      const ExpectedTensor& one = whole.tensors[t];
      for (std::size_t i = 0; i < one.want.size(); ++i) {
        EXPECT_NEAR(one.want[i], cut.tensors[t].want[i], 1e-14);
      }
      EXPECT_GT(cut.tensors[t].worst[0], one.worst[0]) << one.spec.name;
    }
  }
}

TEST(TrainingStep, ExtentsMayBeZero) {
  for (int zero = 0; zero < 16; ++zero) {
    Problem p = problem_for(false, DType::kF32);
    if (zero & 1) p.tokens = 0;
    if (zero & 2) p.features = 0;
    if (zero & 4) p.hidden = 0;
    if (zero & 8) p.outputs = 0;
    p.max_norm = 1;
    for (bool tied : {false, true}) {
      p.tied = tied;
      p.op->repair(p);
      for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kAll).tensors) {
        EXPECT_EQ(static_cast<Index>(tensor.want.size()), tensor.spec.shape.elements());
        for (double bound : tensor.likely) EXPECT_LT(bound, 1e-3);
      }
    }
  }
}

TEST(TrainingStep, TensorsComeInTheirOrder) {
  for (bool tied : {false, true}) {
    const Problem p = problem_for(tied);
    std::string names;
    for (const TensorSpec& spec : p.op->tensors(p)) names += std::string(spec.name) + " ";
    EXPECT_EQ(names,
              tied ? "x w1 b2 dy y dx dw1 db2 norm " : "x w1 w2 b2 dy y dx dw1 dw2 db2 norm ");
    std::string expected_names;
    for (const ExpectedTensor& tensor : p.op->evaluate(p, {}, Effort::kValues).tensors) {
      expected_names += std::string(tensor.spec.name) + " ";
    }
    EXPECT_EQ(expected_names, tied ? "y dx dw1 db2 norm " : "y dx dw1 dw2 db2 norm ");
  }
}

TEST(TrainingStep, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for(dice.chance(50));
    for (Index* extent :
         {&p.tokens, &p.features, &p.hidden, &p.outputs, &p.micro_batches, &p.edit_at}) {
      *extent = dice.below(9) - 3;
    }
    p.max_norm = static_cast<double>(dice.below(5) - 2);
    p.edit = static_cast<Edit>(dice.below(8));
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    Problem again = p;
    again.op->repair(again);
    EXPECT_EQ(again, p);
  }
}

TEST(TrainingStep, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for(true);
  p.outputs = 3;
  EXPECT_EQ(p.op->broken_rule(p), "outputs is 3; allowed with tied=yes: the number of features, 4");
  p.outputs = 4;
  p.micro_batches = 0;
  EXPECT_EQ(p.op->broken_rule(p), "micro_batches is 0; allowed: 1 and more");
  p.micro_batches = 1;
  p.max_norm = -1;
  EXPECT_EQ(p.op->broken_rule(p), "max_norm is -1; allowed: 0 and more");
}

}  // namespace
}  // namespace shardproof
