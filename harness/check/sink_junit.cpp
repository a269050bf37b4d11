#include <fmt/format.h>
#include <fmt/ostream.h>

#include <fstream>

#include "harness/check/sink.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // Other control characters cannot stand in XML at all.
        result += static_cast<unsigned char>(letter) < ' ' && letter != '\n' ? '?' : letter;
    }
  }
  return result;
}

std::uint64_t of(const KindCounts& counts, VerdictKind kind) {
  return counts[static_cast<std::size_t>(kind)];
}

bool fails(const KindCounts& counts) {
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    const auto each = static_cast<VerdictKind>(kind);
    if (is_failure(each) && of(counts, each) > 0) return true;
  }
  return false;
}

class JunitSink : public Sink {
 public:
  explicit JunitSink(const std::string& path) : path_(path), file_(path) {
    if (!file_) throw Error(fmt::format("--junit: cannot write {}", path));
  }

  void on_end(const Tally& tally) override {
    std::size_t failed = 0;
    std::size_t skipped = 0;
    for (const auto& [key, counts] : tally.by_property) {
      failed += fails(counts);
      skipped += !fails(counts) && of(counts, VerdictKind::kHolds) == 0;
    }
    fmt::print(file_,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
               "<testsuite name=\"shardproof\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" "
               "errors=\"0\" time=\"{:.3f}\">\n",
               tally.by_property.size(), failed, skipped, tally.seconds);
    for (const auto& [key, counts] : tally.by_property) {
      print_case(tally, key.first, property_name(key.second, tally.tables), counts);
    }
    fmt::print(file_, "</testsuite>\n</testsuites>\n");
    file_.flush();
    if (!file_) throw Error(fmt::format("--junit: cannot write {}", path_));
  }

 private:
  void print_case(const Tally& tally, std::string_view subject, std::string_view property,
                  const KindCounts& counts) {
    fmt::print(file_, "<testcase classname=\"{}\" name=\"{}\">\n", escaped(subject),
               escaped(property));
    if (fails(counts)) {
      std::string text;
      for (const Failure& failure : tally.failures) {
        if (failure.subject != subject || failure.property != property) continue;
        text += fmt::format("{}\n{}\n", failure.shrunk, failure.verdict.message);
      }
      fmt::print(file_, "<failure message=\"{} {}\">{}</failure>\n",
                 of(counts, VerdictKind::kFalsified), "cases falsified", escaped(text));
    } else if (of(counts, VerdictKind::kHolds) == 0) {
      fmt::print(file_, "<skipped message=\"{} vacuous, {} discarded\"/>\n",
                 of(counts, VerdictKind::kVacuous), of(counts, VerdictKind::kDiscarded));
    }
    fmt::print(file_, "</testcase>\n");
  }

  std::string path_;
  std::ofstream file_;
};

}  // namespace

std::unique_ptr<Sink> make_junit_sink(const std::string& path) {
  return std::make_unique<JunitSink>(path);
}

}  // namespace shardproof
