#include <fmt/format.h>

#include <fstream>

#include "harness/check/junit.h"
#include "harness/check/sink.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

class JunitSink : public Sink {
 public:
  explicit JunitSink(const std::string& path) : path_(path), file_(path) {
    if (!file_) throw Error(fmt::format("--junit: cannot write {}", path));
  }

  void on_end(const Tally& tally) override {
    file_ << Junit::of(tally).text();
    file_.flush();
  }

  std::string trouble() const override {
    return file_ ? "" : fmt::format("--junit: cannot write {} to its end", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace

std::unique_ptr<Sink> make_junit_sink(const std::string& path) {
  return std::make_unique<JunitSink>(path);
}

}  // namespace shardproof
