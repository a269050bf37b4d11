#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/check/journal.h"
#include "harness/check/tally_json.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

class JournalSink : public Sink {
 public:
  // `whole`: bytes to keep; `failures`: how many are in them already.
  JournalSink(const std::filesystem::path& path, std::uint64_t whole, std::size_t failures)
      : path_(path.string()),
        file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
        whole_(whole),
        failures_(failures) {
    if (file_ < 0) fail();
    lock();
  }
  ~JournalSink() override { close(file_); }

  void begin(const JournalHeader& header) {
    if (bytes() > 0) {
      throw Error(fmt::format("--journal: {} exists; go on with it by --resume={}", path_, path_));
    }
    Json stored = Json::array();
    for (const StoredCase& each : header.stored) stored.push_back({each.text, each.origin});
    append(line_of({{"record", "campaign"},
                    {"format", JournalHeader::kFormat},
                    {"version", header.version},
                    {"commit", header.commit},
                    {"flags", header.flags},
                    {"stored", stored}}));
    if (!trouble_.empty()) throw Error(trouble_);
  }

  void go_on(std::uint64_t known) {
    if (bytes() != known) throw Error(fmt::format("{}: it changed just now", path_));
    if (ftruncate(file_, static_cast<off_t>(whole_)) != 0) fail();
  }

  void on_failure(const Failure&, const Tally& tally) override { write(tally, false); }

  // Often enough that little must be judged again, seldom enough to cost nothing.
  void on_progress(const Tally& tally) override {
    constexpr double kLeastSeconds = 2;
    constexpr double kMostSeconds = 30;
    constexpr double kShare = 0.02;
    const double every = std::clamp(kShare * tally.seconds, kLeastSeconds, kMostSeconds);
    if (tally.seconds - last_seconds_ >= every) write(tally, false);
  }

  void on_end(const Tally& tally) override { write(tally, !tally.interrupted); }

  std::string trouble() const override { return trouble_; }

 private:
  std::uint64_t bytes() const {
    struct stat status {};
    if (fstat(file_, &status) != 0) fail();
    return static_cast<std::uint64_t>(status.st_size);
  }

  [[noreturn]] void fail() const {
    throw Error(fmt::format("--journal: cannot write {}: {}", path_, std::strerror(errno)));
  }

  // Workers of a driver that was just killed may hold it for a moment.
  void lock() {
    constexpr int kTries = 20;
    constexpr useconds_t kPause = 100'000;
    for (int i = 0; flock(file_, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno != EWOULDBLOCK) return;  // a place without locks
      if (i == kTries) throw Error(fmt::format("{}: another campaign is writing to it", path_));
      usleep(kPause);
    }
  }

  // Each record has all that the campaign knows, so that one that could not be written is no loss
  // once a later one is.
  void write(const Tally& tally, bool ended) {
    last_seconds_ = tally.seconds;
    Json failures = Json::array();
    for (std::size_t i = failures_; i < tally.failures.size(); ++i) {
      failures.push_back(failure_to_json(tally.failures[i]));
    }
    const Json record{{"record", "progress"},
                      {"cases", tally.cases()},
                      {"ended", ended},
                      {"failures", failures},
                      {"tally", tally_to_json(tally)}};
    if (append(line_of(record))) failures_ = tally.failures.size();
  }

  bool append(std::string_view line) {
    trouble_.clear();
    const std::uint64_t before = whole_;
    while (!line.empty()) {
      const ssize_t count = ::write(file_, line.data(), line.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        trouble_ = fmt::format("--journal: cannot write {}: {}", path_, std::strerror(errno));
        whole_ = before;
        if (ftruncate(file_, static_cast<off_t>(whole_)) != 0) trouble_ += ", nor cut it";
        return false;
      }
      line.remove_prefix(static_cast<std::size_t>(count));
      whole_ += static_cast<std::uint64_t>(count);
    }
    return true;
  }

  std::string path_;
  int file_;
  std::uint64_t whole_;
  std::size_t failures_;
  double last_seconds_ = 0;
  std::string trouble_;
};

}  // namespace

std::unique_ptr<Sink> make_journal_sink(const std::filesystem::path& path,
                                        const JournalHeader& header) {
  auto sink = std::make_unique<JournalSink>(path, 0, 0);
  sink->begin(header);
  return sink;
}

std::unique_ptr<Sink> resume_journal_sink(const std::filesystem::path& path,
                                          const Journal& journal) {
  auto sink = std::make_unique<JournalSink>(path, journal.whole_bytes, journal.failures.size());
  sink->go_on(journal.bytes);
  return sink;
}

}  // namespace shardproof
