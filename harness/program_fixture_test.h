// For tests of the program as its users run it: in a folder of its own, with exit code and output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace shardproof {

namespace fs = std::filesystem;

struct Ran {
  int exit_code = -1;
  std::string output;  // stdout and stderr

  bool says(std::string_view text) const { return output.find(text) != std::string::npos; }
};

class Program : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("shardproof_" + std::string(test->name()) + "_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // `before`: shell commands that end with a semicolon.
  Ran run(const std::string& arguments, const std::string& before = "") const {
    const std::string command = "cd '" + folder_.string() + "' && " + before + SHARDPROOF_BINARY +
                                " " + arguments + " 2>&1 </dev/null";
    Ran ran;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (std::size_t count = fread(buffer, 1, sizeof buffer, pipe))
      ran.output.append(buffer, count);
    const int status = pclose(pipe);
    ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ran;
  }

  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  // The last JSON line of a file.
  nlohmann::json last_record(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    return nlohmann::json::parse(last);
  }

  fs::path folder_;
};

}  // namespace shardproof
