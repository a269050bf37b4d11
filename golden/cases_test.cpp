// The cases in git are ones that this program can run, in their canonical text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "golden/sample_tables_test.h"

namespace shardproof {
namespace {

TEST(CasesInGit, AreCanonicalAndSupported) {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SOURCE "/golden/cases")) {
    if (entry.path().extension() != ".case") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const Case value = parse_case(line, sample_tables().vocabulary());
      EXPECT_EQ(to_text(value), line);
      const Subject* subject = sample_tables().subject(value.placement.subject);
      EXPECT_EQ(subject->op, value.problem.op->name) << line;
      EXPECT_EQ(refusal(*subject, value), "") << line;
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace shardproof
