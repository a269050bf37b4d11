#include "harness/check/junit.h"

#include <gtest/gtest.h>

#include "harness/model/require.h"

namespace shardproof {
namespace {

Junit sample() {
  Junit junit;
  junit.seconds = 1.5;
  junit.cases[{"ring", "holds"}].is_judged = true;
  junit.cases[{"ring", "idle"}] = {};
  JunitCase& failing = junit.cases[{"ring", "a<b>\"&"}];
  failing.fails = true;
  failing.failures["ring / x / y"] = "case | <ring>\nout[0] is wrong\nby 3\n";
  failing.failures["ring / z"] = "other\n&amp; wrong\n";
  return junit;
}

TEST(Junit, ReadsWhatItWrites) {
  const std::string text = sample().text();
  EXPECT_NE(text.find("tests=\"3\" failures=\"1\" skipped=\"1\""), std::string::npos) << text;
  const Junit back = Junit::parse(text);
  EXPECT_EQ(back.text(), text);
  EXPECT_EQ(back.cases.at({"ring", "a<b>\"&"}).failures,
            sample().cases.at({"ring", "a<b>\"&"}).failures);
}

TEST(Junit, JoiningKeepsEveryFailureOnceAndForgetsNone) {
  Junit joined = sample();
  joined.join(sample());
  EXPECT_EQ(joined.text(), sample().text());
  Junit other;
  other.cases[{"ring", "holds"}].fails = true;
  other.cases[{"ring", "holds"}].failures["new"] = "case\n";
  other.cases[{"ring", "idle"}].is_judged = true;
  joined.join(other);
  EXPECT_NE(joined.text().find("tests=\"3\" failures=\"2\" skipped=\"0\""), std::string::npos);
}

TEST(Junit, WhatIsForeignOrCutOffIsAnError) {
  EXPECT_THROW(Junit::parse("<testsuites><testsuite name=\"pytest\"/></testsuites>"), Error);
  const std::string text = sample().text();
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(Junit::parse(text.substr(0, size)), Error) << size;
  }
}

}  // namespace
}  // namespace shardproof
