// GoldenStore: keeps the failures of a campaign as goldens, with the environment they came from.
#pragma once

#include <map>
#include <string>

#include "harness/check/evaluator.h"

namespace shardproof {

// What a result may depend on besides its case: version, commit, compiler, blas, cpu.
std::map<std::string, std::string> environment();

class GoldenStore : public FailureStore {
 public:
  // `seed`: of the campaign; "" for none.
  explicit GoldenStore(std::string_view seed);

  void store(const CaseReport& report, const Judgement& failure,
             const std::filesystem::path& path) override;
  void store_lost(const Case& value, std::string_view property, const Verdict& verdict,
                  const std::filesystem::path& path) override;

 private:
  std::map<std::string, std::string> environment_;
};

}  // namespace shardproof
