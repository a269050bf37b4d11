// Plugins as their users run them: honest ones hold, cheats are found, broken ones are refused.
#include "harness/program_fixture_test.h"

namespace shardproof {
namespace {

const std::string kBuild = SHARDPROOF_BUILD;

std::string plugin(const std::string& name) { return kBuild + "/lib" + name + "_plugin.so"; }

struct Honest {
  std::string plugin;
  std::string subjects;  // "": all of the plugin
  int cases = 0;
};

void PrintTo(const Honest& honest, std::ostream* out) { *out << honest.plugin; }

class HonestPlugin : public Program, public testing::WithParamInterface<Honest> {};

TEST_P(HonestPlugin, HoldsAndIsJudged) {
  const Honest& honest = GetParam();
  const std::string only = honest.subjects.empty() ? "" : " --subject=" + honest.subjects;
  const Ran ran = run("fuzz --seed=1 --jobs=2 --cases=" + std::to_string(honest.cases) +
                      " --plugin=" + plugin(honest.plugin) + only + " --json=verdicts.jsonl");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  const nlohmann::json summary = last_record("verdicts.jsonl");
  EXPECT_GT(summary["cases"], honest.cases / 2);
  EXPECT_LT(summary["refused"], honest.cases / 4) << ran.output;
}

INSTANTIATE_TEST_SUITE_P(All, HonestPlugin,
                         testing::Values(Honest{"attention", "", 1500}, Honest{"tiny", "", 900},
                                         Honest{"mlp", "", 900},
                                         Honest{"cheats", "honest,honest@ring,honest@heads", 300},
                                         Honest{"cheats", "honest_collectives", 600}),
                         [](const auto& each) {
                           return each.param.plugin + std::to_string(each.index);
                         });

struct Cheat {
  std::string subject;
  std::string says;  // what the campaign finds, among other things
  std::string flags = "--cases=60";
};

void PrintTo(const Cheat& cheat, std::ostream* out) { *out << cheat.subject; }

class CheatingPlugin : public Program, public testing::WithParamInterface<Cheat> {};

TEST_P(CheatingPlugin, IsFound) {
  const Cheat& cheat = GetParam();
  const Ran ran = run("fuzz --seed=2 --jobs=1 --subject=" + cheat.subject +
                      " --plugin=" + plugin("cheats") + " " + cheat.flags);
  EXPECT_EQ(ran.exit_code, 1) << ran.output;
  EXPECT_TRUE(ran.says(cheat.says)) << ran.output;
}

INSTANTIATE_TEST_SUITE_P(
    Each, CheatingPlugin,
    testing::Values(
        Cheat{"ghost", "every_output_written"}, Cheat{"ghost@ring", "matches_reference"},
        Cheat{"zeros", "matches_reference"}, Cheat{"zeros@heads", "matches_reference"},
        Cheat{"last_answer", "uniform_attention"}, Cheat{"late", "matches_reference"},
        Cheat{"late@ring", "matches_reference"}, Cheat{"outside", "nothing_out_of_bounds"},
        Cheat{"inputs", "inputs_untouched"}, Cheat{"known_shapes", "matches_reference"},
        Cheat{"now_and_then@ring", "matches_reference"},
        Cheat{"complains", "attention_forward: no such kernel image"}, Cheat{"segfault", "crashed"},
        Cheat{"segfault@ring", "crashed"}, Cheat{"leaves", "crashed"},
        Cheat{"hangs", "timed out", "--case-timeout=300ms --cases=1"},
        Cheat{"alone", "matches_reference", "--cases=300"},
        Cheat{"neighbours_memory", "matches_reference", "--cases=300"},
        Cheat{"never_waits", "every_output_written"}, Cheat{"deadlock", "deadlock"},
        Cheat{"asks_for_nonsense", "queries"}, Cheat{"late_collectives", "output"}),
    [](const auto& tested) {
      std::string name = tested.param.subject;
      for (char& each : name) each = each == '@' ? '_' : each;
      return name;
    });

// Simulated ranks share their addresses: what a rank tells another of them is found out by real
// processes, which is why sharded implementations should be judged there, too.
TEST_F(Program, APluginWhoseRanksReadEachOthersMemoryIsFoundByProcesses) {
  const auto check = [&](const std::string& world) {
    return run(
        "check 'collective collective=all_reduce parts=2 count=3 root=0 dtype=f32 "
        "data=normal seed=1 | sends_addresses world=" +
        world + " device=cpu mesh=tp:2' --plugin=" + plugin("cheats"));
  };
  EXPECT_EQ(check("sim").exit_code, 0);
  if (!fs::exists(kBuild + "/shardproof_rank")) GTEST_SKIP() << "MPI was not found";
  const Ran ran = check("mpi");
  EXPECT_EQ(ran.exit_code, 1) << ran.output;
}

class PluginFiles : public Program {
 protected:
  // A plugin with one subject whose fields are `fields`; `more` comes before it.
  void compile(const std::string& fields, const std::string& more = "",
               const std::string& version = "SHARDPROOF_PLUGIN_VERSION") const {
    std::ofstream source(folder_ / "own.c");
    source << "#include <shardproof_plugin.h>\n"
           << "static const char* there(const shardproof_attention* a) { (void)a; return 0; }\n"
           << "static const char* run(shardproof_rank* r) { (void)r; return 0; }\n"
           << more << "\nconst shardproof_plugin* shardproof_plugin_v1(void) {\n"
           << "  static const shardproof_subject subjects[] = {{" << fields << "}};\n"
           << "  static const shardproof_plugin plugin = {" << version
           << ", sizeof subjects[0], 1, subjects};\n  return &plugin;\n}\n";
    source.close();
    build();
  }
  void build() const {
    const std::string command = "cd '" + folder_.string() +
                                "' && " SHARDPROOF_CC " -shared -fPIC -I " SHARDPROOF_SOURCE
                                "/harness/plugin own.c -o libown.so";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  void expect_refused(const std::string& why) const {
    const Ran ran = run("fuzz --cases=10 --plugin=libown.so");
    EXPECT_EQ(ran.exit_code, 2) << ran.output;
    EXPECT_TRUE(ran.says(why)) << ran.output;
    EXPECT_TRUE(ran.says("libown.so")) << ran.output;
  }
};

constexpr const char* kAttention = ".name=\"own\", .op=\"attention\", .attention_forward=there";

TEST_F(PluginFiles, ThatAreNoPluginsAreRefused) {
  EXPECT_EQ(run("fuzz --plugin=none.so").exit_code, 2);
  EXPECT_TRUE(run("fuzz --plugin=none.so").says("none.so does not exist"));
  std::ofstream(folder_ / "libown.so") << "no library";
  expect_refused("cannot load");
  std::ofstream(folder_ / "own.c") << "int nothing;\n";
  build();
  expect_refused("does not export shardproof_plugin_v1");
  compile(kAttention, "", "7");
  expect_refused("version 7 of shardproof_plugin.h, not of 1");
}

TEST_F(PluginFiles, ThatCrashOrStopWhileLoadedAreRefused) {
  compile(kAttention, "__attribute__((constructor)) static void c(void) { __builtin_trap(); }");
  expect_refused("crashed (Illegal instruction) while it was loaded");
  compile(kAttention,
          "void _exit(int); __attribute__((constructor)) static void c(void) "
          "{ _exit(3); }");
  expect_refused("exited with 3 while it was loaded");
}

TEST_F(PluginFiles, WithBrokenEntriesAreRefusedWithTheChoices) {
  compile(".op=\"attention\", .attention_forward=there");
  expect_refused("has no name");
  compile(".name=\"my own\", .op=\"attention\", .attention_forward=there");
  expect_refused("'my own' is not of letters");
  compile(".name=\"own\", .op=\"gemm\", .attention_forward=there");
  expect_refused("'gemm' is none that a plugin can compute; choices: attention, mlp, collective");
  compile(".name=\"own\", .op=\"attention\"");
  expect_refused("has 0 of attention_forward, mlp_forward and sharded_forward");
  compile(".name=\"own\", .op=\"mlp\", .attention_forward=there");
  expect_refused("attention_forward is none of operator 'mlp'");
  compile(".name=\"own\", .op=\"mlp\", .sharded_forward=run");
  expect_refused("has no sharded_backward");
  compile(".name=\"ring_attention\", .op=\"attention\", .attention_forward=there");
  expect_refused("a subject has this name already");
  compile(std::string(kAttention) + ", .dtypes=1u << 9");
  expect_refused("dtypes is 0x200; choices: SHARDPROOF_DTYPE of f64, f32, tf32, bf16, f16");
  compile(std::string(kAttention) + ", .places=SHARDPROOF_COLUMN_ROW");
  expect_refused("places is 0x8; choices: SHARDPROOF_ALONE, _RING, _HEADS together");
  compile(".name=\"own\", .op=\"mlp\", .sharded_forward=run, .sharded_backward=run, .axes=axes",
          "static const char* const axes[] = {\"cp\", 0};");
  expect_refused("cannot be cut along 'cp'; choices: tp");
  compile(std::string(kAttention) + ", .fault=&fault",
          "static const shardproof_fault fault = {\"luck\", \"none\"};");
  expect_refused("its killer 'luck' is no property");
}

TEST_F(PluginFiles, WithNonsenseForAContractAreRefused) {
  const auto promise = [](const std::string& statement) {
    return "static void c(const shardproof_problem* p, shardproof_contract* promised) { (void)p; " +
           statement + " }";
  };
  const std::string fields = std::string(kAttention) + ", .contract=c";
  compile(fields, promise("promised->probability = 9;"));
  expect_refused("probability is 9, no dtype; choices: SHARDPROOF_F64, _F32");
  compile(fields, promise("promised->rescales = -1;"));
  expect_refused("rescales is -1, below 0");
  compile(fields, promise("promised->ulp_exp = 0.0 / 0.0;"));
  expect_refused("ulp_exp is");
  compile(fields, promise("promised->accumulator = SHARDPROOF_F64;"));
  expect_refused("without a backward pass its contract must not promise more than the default");
}

TEST_F(PluginFiles, AreListedCheckedReplayedAndHunted) {
  const std::string library = " --plugin=" + plugin("attention");
  EXPECT_TRUE(run("list subjects" + library).says("plain_attention@ring"));
  const auto check = [&](const std::string& subject) {
    return run(
        "check 'attention batch=1 heads=2/1 q=5 kv=5 dim=4 mask=causal dtype=f32 "
        "data=normal seed=1 | " +
        subject + " world=sim device=cpu mesh=cp:1'" + library);
  };
  EXPECT_EQ(check("plain_attention@ring").exit_code, 0);
  EXPECT_EQ(check("attention_in_base_2").exit_code, 1);
  EXPECT_EQ(check("another").exit_code, 2);
  const std::string only = " --only=attention_in_base_2,attention_in_base_2@ring";
  const Ran hunted = run("mutants --goldens-out=found --jobs=1" + only + library);
  EXPECT_EQ(hunted.exit_code, 0) << hunted.output;
  EXPECT_TRUE(hunted.says("2 killed by the property they name")) << hunted.output;
  const Ran replayed = run("replay found" + library);
  EXPECT_EQ(replayed.exit_code, 1) << replayed.output;
  EXPECT_TRUE(replayed.says("still fails")) << replayed.output;
}

TEST_F(PluginFiles, GoOnInAResumedCampaign) {
  const std::string library = " --plugin=" + plugin("tiny");
  EXPECT_EQ(run("fuzz --cases=60 --journal=j.jsonl" + library).exit_code, 0);
  const Ran resumed = run("fuzz --resume=j.jsonl");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("resumed after 60 cases")) << resumed.output;
}

}  // namespace
}  // namespace shardproof
