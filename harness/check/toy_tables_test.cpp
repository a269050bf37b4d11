#include "harness/check/toy_tables_test.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "harness/masks/masks.h"
#include "harness/model/operator.h"

namespace shardproof {
namespace {

constexpr std::string_view kKeys[] = {"heads", "q", "kv", "dim", "mask", "dtype", "data", "seed"};

void repair_toy(Problem& problem) {
  problem.kv_heads = std::min(problem.kv_heads, problem.heads);
  while (problem.heads % problem.kv_heads != 0) --problem.kv_heads;
  const Mask& mask = *problem.mask.mask;
  Index* values[] = {&problem.mask.a, &problem.mask.b};
  for (std::size_t i = 0; i < 2; ++i) {
    if (i >= mask.parameters.size()) {
      *values[i] = 0;
    } else {
      const Index least = mask.parameters[i].minimum;
      const Index most = mask.parameters[i].maximum(problem.q, problem.kv);
      *values[i] = std::clamp(*values[i], least, std::max(least, most));
    }
  }
}

const Operator& toy_operator() {
  static const Operator op{
      .name = "toy",
      .summary = "an operator for tests",
      .keys = kKeys,
      .tensors = [](const Problem&) { return std::vector<TensorSpec>{}; },
      .repair = repair_toy,
      .broken_rule =
          [](const Problem& problem) {
            return problem.heads % problem.kv_heads == 0 ? std::string() : "heads do not divide";
          },
      .evaluate = [](const Problem&, const Contract&, Effort) { return Expected{}; },
      .work = [](const Problem& problem) { return static_cast<double>(problem.q * problem.kv); },
  };
  return op;
}

const Subject& toy_subject(std::string_view name) {
  static std::vector<std::unique_ptr<Subject>> made;
  auto subject = std::make_unique<Subject>();
  subject->name = name;
  subject->op = "toy";
  subject->summary = "a subject for tests";
  static const std::vector<std::string_view> axes{"tp", "cp"};
  subject->axes = axes;
  subject->uses_layout = true;
  subject->contract = [](const Case&) { return Contract{}; };
  subject->unsupported = [](const Case& value) {
    return value.problem.kv == 13 ? std::string("13 keys bring bad luck") : std::string();
  };
  made.push_back(std::move(subject));
  return *made.back();
}

void misbehave(std::string_view name) {
  if (name == "segfault") std::raise(SIGSEGV);
  if (name == "exits") std::exit(3);
  if (name == "aborts") std::abort();
  if (name == "noisy") {
    for (int i = 0; i < 100000; ++i) std::printf("noise %d\n", i);
  }
  if (name == "hangs") {
    for (volatile bool for_ever = true; for_ever;) {
    }
  }
  if (name == "hungry") {
    std::vector<std::vector<char>> all;
    for (;;) all.emplace_back(std::size_t{1} << 26, 'x');
  }
}

class ToyWorld : public World {
 public:
  Outcome run(const Case& value, const Subject& subject, const RunOptions&) override {
    const Problem& problem = value.problem;
    if (problem.q >= 5) misbehave(subject.name);
    Outcome outcome;
    const bool masked = problem.mask.mask->name != "none";
    if (subject.name == "wrong" && problem.q >= 7 && masked) outcome.message = "out";
    if (subject.name == "mean" && problem.q >= 4) outcome.message = "out";
    if (subject.name == "mean" && problem.q < 4 && problem.kv >= 9) outcome.message = "lse";
    return outcome;
  }
};

const Property& believer() {
  static const Property property{
      .name = "believer",
      .family = Family::kOracle,
      .claim = "What the world says is right.",
      .inapplicable =
          [](const Case& value, const Subject&) {
            return value.problem.q == 0 ? std::string("no queries") : std::string();
          },
      .judge =
          [](const Evidence& evidence) {
            const std::string& wrong = evidence.base.outcome.message;
            if (wrong.empty()) return Verdict::holds();
            Verdict verdict;
            verdict.kind = VerdictKind::kFalsified;
            verdict.message = wrong + " is wrong";
            verdict.tensor = wrong;
            verdict.symptom = "wrong";
            return verdict;
          },
  };
  return property;
}

}  // namespace

Tables toy_tables() {
  Tables tables;
  tables.operators = {&toy_operator()};
  tables.masks = all_masks();
  for (std::string_view name :
       {"right", "wrong", "mean", "segfault", "exits", "aborts", "hangs", "hungry", "noisy"}) {
    tables.subjects.push_back(&toy_subject(name));
  }
  tables.properties = {&believer()};
  tables.worlds.push_back(
      {.name = "sim",
       .summary = "a world for tests",
       .unavailable = [](const std::vector<DeviceEntry>&) { return std::string(); },
       .make = [](std::vector<DeviceEntry>) -> std::unique_ptr<World> {
         return std::make_unique<ToyWorld>();
       }});
  tables.devices.push_back({.name = "cpu",
                            .summary = "a device for tests",
                            .unavailable = [] { return std::string(); },
                            .make = [] { return std::unique_ptr<Device>(); }});
  return tables;
}

}  // namespace shardproof
