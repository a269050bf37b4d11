// The cases in git are ones that this program can run, in their canonical text; damaged, they are
// other cases or errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "golden/sample_golden_test.h"
#include "golden/sample_tables_test.h"

namespace shardproof {
namespace {

std::vector<std::string> lines_in_git() {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SOURCE "/golden/cases")) {
    if (entry.path().extension() != ".case") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line[0] != '#') lines.push_back(line);
    }
  }
  return lines;
}

TEST(CasesInGit, AreCanonicalAndSupported) {
  const auto lines = lines_in_git();
  for (const std::string& line : lines) {
    const Case value = parse_case(line, sample_tables().vocabulary());
    EXPECT_EQ(to_text(value), line);
    const Subject* subject = sample_tables().subject(value.placement.subject);
    EXPECT_EQ(subject->op, value.problem.op->name) << line;
    EXPECT_EQ(refusal(*subject, value), "") << line;
  }
  EXPECT_FALSE(lines.empty());
}

// A letter or a digit changed, a letter put in or some taken out, or a word replaced by one of
// another line.
std::string damaged(std::string line, const std::string& other, GoldenDraw& draw) {
  const auto position = [&](const std::string& text) {
    return static_cast<std::size_t>(draw.below(std::ssize(text)));
  };
  const auto word_at = [](const std::string& text, std::size_t at) {
    const std::size_t first = text.rfind(' ', at) + 1;
    return std::pair(first, std::min(text.find(' ', first), text.size()) - first);
  };
  const std::size_t at = position(line);
  switch (draw.below(10)) {
    case 0:
      return line.replace(at, 1, 1, static_cast<char>(draw.below(256)));
    case 1:
      return line.insert(at, 1, static_cast<char>(draw.below(256)));
    case 2:
      return line.erase(at, static_cast<std::size_t>(1 + draw.below(4)));
    case 3: {
      const auto [first, size] = word_at(line, at);
      const auto [other_first, other_size] = word_at(other, position(other));
      return line.replace(first, size, other.substr(other_first, other_size));
    }
    default:
      const std::size_t digit = line.find_first_of("0123456789", at);
      if (digit == std::string::npos) return line;
      return line.replace(digit, 1, std::to_string(draw.below(12)));
  }
}

TEST(Damage, OfALineIsAnErrorOrAnotherCase) {
  const auto lines = lines_in_git();
  const Vocabulary vocabulary = sample_tables().vocabulary();
  GoldenDraw draw(11);
  const auto any = [&] { return lines[static_cast<std::size_t>(draw.below(std::ssize(lines)))]; };
  int refused = 0;
  const int count = rounds("SHARDPROOF_DAMAGED_LINES", 20000);
  for (int i = 0; i < count; ++i) {
    std::string line = any();
    for (Index edits = 1 + draw.below(3); edits > 0 && !line.empty(); --edits) {
      line = damaged(line, any(), draw);
    }
    try {
      const Case value = parse_case(line, vocabulary);
      const std::string text = to_text(value);
      EXPECT_EQ(parse_case(text, vocabulary), value) << line;
      EXPECT_EQ(to_text(parse_case(text, vocabulary)), text) << line;
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "") << line;
      ++refused;
    }
  }
  std::printf("%d damaged lines: %d refused, %d other cases\n", count, refused, count - refused);
  EXPECT_GT(refused, count / 5);
  EXPECT_LT(refused, count - count / 5);
}

}  // namespace
}  // namespace shardproof
