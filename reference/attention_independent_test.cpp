#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/masks/masks.h"
#include "harness/model/case.h"
#include "reference/attention.h"
#include "reference/attention_random.h"

namespace shardproof {
namespace {

// Every mask with every bias, several times.
std::vector<Problem> problems() {
  const std::vector<const Mask*> masks = all_masks();
  std::vector<Problem> result;
  for (std::uint64_t seed = 0; seed < 8 * masks.size(); ++seed) {
    Draw draw(seed + 500);
    Problem p = random_problem(draw, 12);
    p.mask.mask = masks[seed % masks.size()];
    p.bias = static_cast<ScoreBias>(seed / masks.size() % 3);
    // f64, so that scale and inputs are not rounded; recipes whose values NumPy's doubles can hold.
    p.dtype = DType::kF64;
    p.edit = Edit::kNone;
    if (p.data == DataRecipe::kTiny || p.data == DataRecipe::kHuge) p.data = DataRecipe::kPeaked;
    p.op->repair(p);
    result.push_back(p);
  }
  return result;
}

void write(std::ostream& to, const Problem& p) {
  to << fmt::format(
      "problem batch={} heads={} kv_heads={} q={} kv={} dim={} dim_v={} mask={} a={} b={} seed={} "
      "bias={} sink={} scale={} softcap={} dropout={} rotary={} positions={} offset={}\n",
      p.batch, p.heads, p.kv_heads, p.q, p.kv, p.dim, p.dim_v, p.mask.mask->name, p.mask.a,
      p.mask.b, p.seed, names_of_score_bias()[static_cast<std::size_t>(p.bias)], p.sink ? 1 : 0,
      p.scale, p.softcap, p.dropout, p.rotary,
      names_of_position_ids()[static_cast<std::size_t>(p.positions)], p.position_offset);
  for (const auto& [name, values] : inputs_of(p)) {
    to << "tensor " << name << "\n";
    for (double value : values) to << fmt::format("{:.17g} ", value);
    to << "\n";
  }
}

std::vector<NamedTensors> read(std::istream& from) {
  std::vector<NamedTensors> result;
  std::string word;
  std::string line;
  while (std::getline(from, line)) {
    std::istringstream words(line);
    words >> word;
    if (word == "problem") {
      result.emplace_back();
      continue;
    }
    words >> word;
    std::getline(from, line);
    std::istringstream values(line);
    std::vector<double>& tensor = result.back()[word];
    while (values >> word) tensor.push_back(std::strtod(word.c_str(), nullptr));
  }
  return result;
}

// The largest difference, relative to the tensor's largest element.
double difference(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double largest = 1e-300;
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;
    largest = std::max(largest, std::fabs(want[i]));
    most = std::max(most, std::isfinite(got[i]) ? std::fabs(got[i] - want[i]) : INFINITY);
  }
  return most / std::max(largest, 1.0);
}

TEST(AttentionIndependent, AgreesWithNumpy) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("shardproof_attention_{}", getpid());
  std::filesystem::create_directory(folder);
  const std::vector<Problem> all = problems();
  {
    std::ofstream file(folder / "problems");
    for (const Problem& p : all) write(file, p);
  }
  const std::string command =
      fmt::format("/usr/bin/python3 {}/reference/independent_attention.py {}/problems {}/results",
                  SHARDPROOF_SOURCE, folder.string(), folder.string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command << " (needs python3-numpy)";
  std::ifstream file(folder / "results");
  const std::vector<NamedTensors> results = read(file);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(results.size(), all.size());
  int fully_different = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Expected expected = all[i].op->evaluate(all[i], {}, Effort::kValues);
    for (const ExpectedTensor& tensor : expected.tensors) {
      const std::vector<double>& other = results[i].find(tensor.spec.name)->second;
      EXPECT_LT(difference(other, tensor.want), 1e-11)
          << to_text(all[i]) << " " << tensor.spec.name;
    }
    // The comparison itself can fail: another problem's answer does not pass for this one's.
    const std::vector<double>& next = results[(i + 1) % all.size()].find("dq")->second;
    const std::vector<double>& want = expected.find("dq")->want;
    fully_different += next.size() != want.size() || difference(next, want) > 1e-6 ? 1 : 0;
  }
  EXPECT_GT(fully_different, static_cast<int>(all.size()) - 5);
}

}  // namespace
}  // namespace shardproof
