#include "harness/command_store.h"

#include <fmt/format.h>

#include <fstream>

#include "golden/golden.h"

// Of OpenBLAS; its header is known to the devices only.
extern "C" char* openblas_get_config();
extern "C" char* openblas_get_corename();

namespace shardproof {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

std::map<std::string, std::string> environment() {
  return {{"version", SHARDPROOF_VERSION},
          {"commit", SHARDPROOF_COMMIT},
          {"compiler", fmt::format("gcc {}", __VERSION__)},
          {"blas", fmt::format("{} ({})", openblas_get_config(), openblas_get_corename())},
          {"cpu", processor_name()}};
}

GoldenStore::GoldenStore(std::string_view seed) : environment_(environment()) {
  if (!seed.empty()) environment_["seed"] = seed;
}

void GoldenStore::store(const CaseReport& report, const Judgement& failure,
                        const std::filesystem::path& path) {
  write_golden(path, make_golden(report, failure, environment_));
}

void GoldenStore::store_lost(const Case& value, std::string_view property, const Verdict& verdict,
                             const std::filesystem::path& path) {
  Golden golden;
  golden.case_text = to_text(value);
  golden.property = property;
  golden.verdict = verdict;
  golden.environment = environment_;
  write_golden(path, golden);
}

}  // namespace shardproof
