// What `cmake --install` gives is enough: the examples are built against it outside the source
// tree and judged by the installed program.
#include "harness/program_fixture_test.h"

namespace shardproof {
namespace {

class Installed : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    shell(SHARDPROOF_CMAKE " --install " SHARDPROOF_BUILD " --prefix prefix");
    fs::copy(fs::path(SHARDPROOF_SOURCE) / "harness/plugin/examples", folder_ / "examples");
  }

  Ran shell(const std::string& command) const {
    Ran ran;
    const std::string whole = "cd '" + folder_.string() + "' && " + command + " 2>&1 </dev/null";
    FILE* pipe = popen(whole.c_str(), "r");
    char piece[4096];
    while (std::size_t count = fread(piece, 1, sizeof piece, pipe)) ran.output.append(piece, count);
    const int status = pclose(pipe);
    ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ran;
  }
  void expect(int exit_code, const std::string& command) const {
    const Ran ran = shell(command);
    EXPECT_EQ(ran.exit_code, exit_code) << command << "\n" << ran.output;
  }
};

TEST_F(Installed, ExamplesBuildWithTheCMakePackageAndAreJudged) {
  expect(0, SHARDPROOF_CMAKE
         " -S examples -B build -DCMAKE_PREFIX_PATH=$PWD/prefix -DCMAKE_CXX_"
         "COMPILER=" SHARDPROOF_CXX " && " SHARDPROOF_CMAKE " --build build");
  expect(0,
         "prefix/bin/shardproof fuzz --cases=200 --jobs=1 --plugin=build/libattention.so,"
         "build/libmlp.so,build/libtiny.so");
  const std::string faulty = " --subject=attention_in_base_2,attention_in_base_2@ring";
  expect(1,
         "prefix/bin/shardproof fuzz --cases=20 --jobs=1 --plugin=build/libattention.so" + faulty);
  if (!fs::exists(folder_ / "build/libmpi_ring.so")) GTEST_SKIP() << "MPI was not found";
  expect(0,
         "prefix/bin/shardproof fuzz --world=mpi --ranks=3 --cases=60 --jobs=1 "
         "--plugin=build/libmpi_ring.so");
  expect(2, "prefix/bin/shardproof fuzz --cases=60 --jobs=1 --plugin=build/libmpi_ring.so");
}

TEST_F(Installed, TheHeaderIsPlainCAndOneCommandBuildsAPlugin) {
  const std::string warnings = " -pedantic -Wall -Wextra -Werror -I prefix/include ";
  std::ofstream(folder_ / "header.c") << "#include <shardproof_plugin.h>\nint nothing;\n";
  expect(0, SHARDPROOF_CC " -std=c99 -fsyntax-only" + warnings + "header.c");
  expect(0, SHARDPROOF_CXX " -std=c++11 -x c++ -fsyntax-only" + warnings + "header.c");
  expect(0, SHARDPROOF_CC " -shared -fPIC -O2 -std=c99" + warnings +
                "examples/tiny.c -o libtiny.so -lm");
  expect(0, "prefix/bin/shardproof fuzz --cases=50 --jobs=1 --plugin=./libtiny.so");
}

}  // namespace
}  // namespace shardproof
