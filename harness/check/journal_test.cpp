#include "harness/check/journal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "harness/check/tally_json.h"
#include "harness/check/toy_tables_test.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

class JournalTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  CampaignOptions options() const {
    CampaignOptions result;
    result.seed = "5";
    result.cases = 400;
    result.jobs = 2;
    result.stored = stored_;
    return result;
  }

  Tally run(const CampaignOptions& options, const std::vector<Sink*>& sinks) const {
    return run_campaign(tables_, domain_, options, sinks);
  }

  // A whole campaign with a journal.
  Tally run_with_journal() const {
    const auto sink = make_journal_sink(path_, {"1", "abc", {{"--seed", "5"}}, stored_});
    const Tally tally = run(options(), {sink.get()});
    EXPECT_EQ(sink->trouble(), "");
    return tally;
  }

  std::string text() const {
    std::stringstream result;
    result << std::ifstream(path_).rdbuf();
    return result.str();
  }

  void write(const std::string& content) const { std::ofstream(path_) << content; }

  // All that a tally says but how long it took.
  static std::string sum(const Tally& tally) {
    Json json = tally_to_json(tally);
    json.erase("seconds");
    std::string result = line_of(json);
    for (const Failure& failure : tally.failures) result += line_of(failure_to_json(failure));
    return result;
  }

  std::string path_ = fmt::format("{}shardproof_journal_{}.jsonl", testing::TempDir(), getpid());
  Tables tables_ = toy_tables();
  Domain domain_ = make_domain({.subjects = {"right", "wrong", "mean", "segfault"}}, tables_);
  std::vector<StoredCase> stored_{
      {"toy heads=2 q=5 kv=6 dim=7 mask=none dtype=f32 data=normal seed=9 | mean "
       "world=sim device=cpu mesh=1 layout=contiguous schedule=0",
       "some.case:1"}};
};

TEST_F(JournalTest, HoldsAllThatTheCampaignKnew) {
  const Tally tally = run_with_journal();
  const Journal journal = read_journal(path_);
  EXPECT_TRUE(is_journal(path_));
  EXPECT_TRUE(journal.ended);
  EXPECT_EQ(journal.header.commit, "abc");
  EXPECT_EQ(journal.header.flags.at("--seed"), "5");
  ASSERT_EQ(journal.header.stored.size(), 1U);
  EXPECT_EQ(journal.header.stored[0].origin, "some.case:1");
  EXPECT_EQ(tally.failures.size(), 4U);
  EXPECT_EQ(sum(journal.read_tally(domain_, tables_)), sum(tally));
}

// Wherever a kill cuts it off, the rest of the campaign gives the same.
TEST_F(JournalTest, ACampaignGoesOnFromEveryRecordAndFromACutLine) {
  const Tally whole = run_with_journal();
  const std::string all = text();
  std::size_t records = 0;
  for (std::size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', end + 1)) {
    ++records;
    const std::size_t more = std::min<std::size_t>(40, all.size() - end - 1);
    write(all.substr(0, end + 1 + more));
    const Journal journal = read_journal(path_);
    EXPECT_EQ(journal.whole_bytes, end + 1);
    const Tally known = journal.read_tally(domain_, tables_);
    CampaignOptions rest = options();
    rest.resumed = &known;
    const auto sink = resume_journal_sink(path_, journal);
    EXPECT_EQ(sum(run(rest, {sink.get()})), sum(whole)) << "from record " << records;
    EXPECT_EQ(sum(read_journal(path_).read_tally(domain_, tables_)), sum(whole));
  }
  EXPECT_GE(records, 6U) << "a header, four failures and the end";
}

TEST_F(JournalTest, WritesAFailureBeforeItIsShown) {
  class Looks : public Sink {
   public:
    explicit Looks(std::string path) : path_(std::move(path)) {}
    void on_failure(const Failure& failure, const Tally&) override {
      EXPECT_EQ(read_journal(path_).failures.back().signature, failure.signature);
      ++seen;
    }
    int seen = 0;

   private:
    std::string path_;
  };
  const auto sink = make_journal_sink(path_, {});
  Looks looks(path_);
  run(options(), {sink.get(), &looks});
  EXPECT_EQ(looks.seen, 4);
}

TEST_F(JournalTest, PartsJoinToTheWholeCampaign) {
  const Tally whole = run(options(), {});
  Tally joined(domain_, tables_);
  for (std::uint64_t index : {2, 0, 1}) {
    CampaignOptions part = options();
    part.part = {index, 3};
    joined.join(run(part, {}));
  }
  EXPECT_EQ(sum(joined), sum(whole));
}

TEST_F(JournalTest, RealsThatJsonDoesNotHaveComeBack) {
  Failure failure;
  failure.verdict.got = std::numeric_limits<double>::quiet_NaN();
  failure.verdict.want = -std::numeric_limits<double>::infinity();
  failure.verdict.bound = 0.1;
  failure.verdict.message = "no UTF-8: \xff";
  const Failure back = failure_from_json(Json::parse(line_of(failure_to_json(failure))));
  EXPECT_TRUE(std::isnan(back.verdict.got));
  EXPECT_EQ(back.verdict.want, failure.verdict.want);
  EXPECT_EQ(back.verdict.bound, 0.1);
}

TEST_F(JournalTest, DamageAndForeignFilesAreErrorsThatSayWhere) {
  const auto expect = [&](const std::string& content, const std::string& says) {
    write(content);
    try {
      read_journal(path_);
      ADD_FAILURE() << "was read: " << content;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  run_with_journal();
  const std::string all = text();
  const std::size_t second = all.find('\n') + 1;
  expect(all.substr(0, second) + "{\"record\":\n" + all.substr(second), ":2:");
  expect(all.substr(second), ":1: it is no journal");
  expect("", "not even a journal's header");
  expect(all.substr(0, second - 1), "not even a journal's header");
  expect("nonsense\n", ":1:");
  std::string newer = all;
  newer.replace(newer.find("\"format\":1"), 10, "\"format\":2");
  expect(newer, "its format is 2, this program knows 1");
  std::string foreign = all;
  for (std::size_t at = 0; (at = foreign.find("believer", at)) != std::string::npos;) {
    foreign.replace(at, 8, "nobodies");
  }
  write(foreign);
  EXPECT_THROW(read_journal(path_).read_tally(domain_, tables_), Error);
}

TEST_F(JournalTest, NothingIsWrittenOver) {
  write("precious\n");
  EXPECT_THROW(make_journal_sink(path_, {}), Error);
  EXPECT_EQ(text(), "precious\n");
  std::filesystem::remove(path_);
  const auto first = make_journal_sink(path_, {});
  EXPECT_THROW(resume_journal_sink(path_, read_journal(path_)), Error) << "it is in use";
  EXPECT_THROW(make_journal_sink("/dev/full", {}), Error);
  EXPECT_THROW(make_journal_sink("/no/such/place", {}), Error);
}

}  // namespace
}  // namespace shardproof
