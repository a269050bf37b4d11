// The values of the next-word loss: finite differences, closed forms, an independent
// implementation, edges.
#include "reference/cross_entropy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>

#include "harness/model/case.h"
#include "reference/emulation.h"
#include "reference/tensor_dump.h"

namespace shardproof {
namespace {

Problem problem_for(DType dtype = DType::kF64) {
  Problem p;
  p.op = &cross_entropy_operator();
  p.batch = 2;
  p.tokens = 6;
  p.vocab = 7;
  p.padding = 2;
  p.smoothing = 0.1;
  p.ignored = 0.2;
  p.dtype = dtype;
  p.seed = 17;
  return p;
}

std::vector<double> input(const Problem& p, std::size_t which) {
  return whole_tensor(p, p.op->tensors(p)[which]);
}

std::vector<double> values(const Problem& p, std::string_view name) {
  return p.op->evaluate(p, {}, Effort::kValues).find(name)->want;
}

using Wide = std::vector<long double>;

// sum(dloss * loss) + dmean * mean, from the definition and in another order than the operator's.
long double objective(const Problem& p, const Wide& logits) {
  const std::vector<Index> labels = labels_of(p, input(p, 1));
  const std::vector<double> dloss = input(p, 2);
  const long double smoothing = effective_smoothing(p);
  long double weighted = 0;
  long double sum = 0;
  Index count = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    const long double* x = logits.data() + static_cast<Index>(row) * columns_of(p);
    long double total = 0;
    for (Index j = 0; j < p.vocab; ++j) total += std::exp(x[j]);
    long double loss = 0;
    for (Index j = 0; j < p.vocab; ++j) {
      const long double own = j == labels[row] ? 1 - smoothing : 0;
      loss -=
          (own + smoothing / static_cast<long double>(p.vocab)) * std::log(std::exp(x[j]) / total);
    }
    weighted += dloss[row] * loss;
    sum += loss;
    ++count;
  }
  return weighted + (count > 0 ? input(p, 3)[0] * sum / static_cast<long double>(count) : 0);
}

TEST(CrossEntropy, GradientsAreThoseOfFiniteDifferences) {
  const long double h = 1e-6L;
  for (double smoothing : {0.0, 0.1, 1.0}) {
    Problem p = problem_for();
    p.smoothing = smoothing;
    const std::vector<double> exact = input(p, 0);
    Wide logits(exact.begin(), exact.end());
    const std::vector<double> gradient = values(p, "dlogits");
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const long double at = logits[i];
      logits[i] = at + h;
      const long double above = objective(p, logits);
      logits[i] = at - h;
      const long double below = objective(p, logits);
      logits[i] = at;
      EXPECT_NEAR(gradient[i], static_cast<double>((above - below) / (2 * h)), 1e-9) << i;
    }
  }
}

TEST(CrossEntropy, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  Problem p = problem_for();
  p.data = DataRecipe::kConstantRows;
  const std::vector<Index> labels = labels_of(p, input(p, 1));
  const std::vector<double> loss = values(p, "loss");
  for (std::size_t row = 0; row < labels.size(); ++row) {
    EXPECT_NEAR(loss[row], labels[row] < 0 ? 0 : std::log(7.0), 1e-15);
  }
  EXPECT_NEAR(values(p, "mean")[0], std::log(7.0), 1e-15);
}

TEST(CrossEntropy, ALabelIsTheNextWordOfTheSequence) {
  Problem p = problem_for();
  p.tokens = 3;
  EXPECT_EQ(labels_of(p, {4, 0, 2, 6, -1, 5}), (std::vector<Index>{0, 2, -1, -1, 5, -1}));
  EXPECT_TRUE(labels_of(p, {}).empty());
  p.tokens = 1;
  EXPECT_EQ(labels_of(p, {4, 3}), (std::vector<Index>{-1, -1}));
}

// The mean's share of the gradient is that of the valid tokens alone.
TEST(CrossEntropy, TheMeanIsThatOfTheTokensWithALabel) {
  for (double ignored : {0.0, 0.2, 0.6}) {
    Problem p = problem_for();
    p.ignored = ignored;
    const std::vector<Index> labels = labels_of(p, input(p, 1));
    const auto count = std::count_if(labels.begin(), labels.end(), [](Index l) { return l >= 0; });
    const std::vector<double> loss = values(p, "loss");
    ASSERT_GT(count, 0);
    EXPECT_NEAR(values(p, "mean")[0],
                std::accumulate(loss.begin(), loss.end(), 0.0) / static_cast<double>(count), 1e-15);
  }
}

TEST(CrossEntropy, WithoutALabelThereIsNoLossAndNoGradient) {
  Problem p = problem_for();
  p.ignored = 1;
  EXPECT_EQ(values(p, "mean")[0], 0);
  for (const char* name : {"loss", "dlogits"}) {
    for (double value : values(p, name)) EXPECT_EQ(value, 0) << name;
  }
  EXPECT_GT(values(p, "lse")[0], 0);
}

TEST(CrossEntropy, GradientsOfATokenSumToZeroAndPaddingHasNone) {
  const Problem p = problem_for();
  const std::vector<double> gradient = values(p, "dlogits");
  for (std::size_t first = 0; first < gradient.size(); first += 9) {
    double sum = 0;
    for (std::size_t j = 0; j < 7; ++j) sum += gradient[first + j];
    EXPECT_NEAR(sum, 0, 1e-15);
    EXPECT_EQ(gradient[first + 7], 0);
    EXPECT_EQ(gradient[first + 8], 0);
  }
}

std::string dumped(const Problem& p, double claimed_smoothing, const std::string& path) {
  TensorDump dump(path);
  dump.add("problem",
           {static_cast<double>(p.batch), static_cast<double>(p.tokens),
            static_cast<double>(p.vocab), static_cast<double>(p.padding), claimed_smoothing});
  dump.add(p, p.op->evaluate(p, {}, Effort::kAll));
  return " " + path;
}

TEST(CrossEntropy, AnIndependentImplementationAgrees) {
  const std::string folder = testing::TempDir() + "shardproof_loss_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string command = "/usr/bin/python3 " + std::string(SHARDPROOF_SOURCE) +
                              "/reference/independent_cross_entropy.py";
  std::string files;
  for (int i = 0; i < 10; ++i) {
    Problem p = problem_for(DType::kF32);
    p.data = static_cast<DataRecipe>(i);
    p.smoothing = i % 3 * 0.5;
    p.ignored = i % 2 * 0.4;
    p.padding = i % 4;
    files += dumped(p, p.smoothing, folder + "/" + std::to_string(i));
  }
  EXPECT_EQ(std::system((command + files).c_str()), 0);
  // It must notice a wrong answer.
  const std::string wrong = dumped(problem_for(DType::kF32), 0.2, folder + "/wrong");
  EXPECT_NE(std::system((command + wrong + " > /dev/null").c_str()), 0);
  std::filesystem::remove_all(folder);
}

TEST(CrossEntropy, HowWordsAndTokensAreCutChangesNoValue) {
  const Problem p = problem_for(DType::kF32);
  Dice dice(1);
  Contract contract;
  const Expected whole = p.op->evaluate(p, contract, Effort::kAll);
  contract.partitions.summed = dice.partition(p.vocab, 4);
  contract.partitions.queries = dice.partition(p.tokens, 3);
  const Expected cut = p.op->evaluate(p, contract, Effort::kAll);
  for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
    EXPECT_EQ(whole.tensors[t].want, cut.tensors[t].want);
    const auto largest = [&](const Expected& expected) {
      return *std::max_element(expected.tensors[t].worst.begin(), expected.tensors[t].worst.end());
    };
    EXPECT_GT(largest(cut), largest(whole)) << whole.tensors[t].spec.name;
  }
}

TEST(CrossEntropy, ExtentsMayBeZero) {
  for (int zero = 1; zero < 4; ++zero) {
    Problem p = problem_for(DType::kBf16);
    if (zero & 1) p.batch = 0;
    if (zero & 2) p.tokens = 0;
    const Expected expected = p.op->evaluate(p, {}, Effort::kAll);
    for (const ExpectedTensor& tensor : expected.tensors) {
      EXPECT_EQ(static_cast<Index>(tensor.want.size()), tensor.spec.shape.elements());
    }
    EXPECT_EQ(expected.find("mean")->want, std::vector<double>{0});
    EXPECT_EQ(expected.find("mean")->worst, std::vector<double>{0});
  }
}

TEST(CrossEntropy, RepairIsTotalAndIdempotent) {
  Dice dice(5);
  for (int i = 0; i < 2000; ++i) {
    Problem p = problem_for();
    for (Index* extent : {&p.batch, &p.tokens, &p.vocab, &p.padding, &p.edit_at}) {
      *extent = dice.below(9) - 3;
    }
    p.smoothing = static_cast<double>(dice.below(9) - 3) / 3;
    p.ignored = static_cast<double>(dice.below(9) - 3) / 3;
    p.edit = static_cast<Edit>(dice.below(8));
    p.op->repair(p);
    EXPECT_EQ(p.op->broken_rule(p), "");
    Problem again = p;
    again.op->repair(again);
    EXPECT_EQ(again, p);
  }
}

TEST(CrossEntropy, ABrokenRuleNamesTheValueAndTheChoices) {
  Problem p = problem_for();
  p.vocab = 0;
  EXPECT_EQ(p.op->broken_rule(p), "vocab is 0; allowed: 1 and more");
  p.vocab = 1;
  p.ignored = 1.5;
  EXPECT_EQ(p.op->broken_rule(p), "ignored is 1.5; allowed: 0 to 1");
}

}  // namespace
}  // namespace shardproof
