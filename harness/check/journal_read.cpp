#include <fmt/format.h>

#include <fstream>
#include <string_view>

#include "harness/check/journal.h"
#include "harness/check/tally_json.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

JournalHeader read_header(const Json& json) {
  const int format = json.at("format");
  if (format != JournalHeader::kFormat) {
    throw Error(
        fmt::format("its format is {}, this program knows {}", format, JournalHeader::kFormat));
  }
  JournalHeader header;
  json.at("version").get_to(header.version);
  json.at("commit").get_to(header.commit);
  json.at("flags").get_to(header.flags);
  for (const Json& each : json.at("stored")) {
    header.stored.push_back({each.at(0), each.at(1)});
  }
  return header;
}

void read_progress(const Json& json, Journal& journal) {
  if (json.at("record") != "progress") throw Error("it is no record of a campaign");
  for (const Json& each : json.at("failures")) {
    journal.failures.push_back(failure_from_json(each));
  }
  journal.ended = json.at("ended");
  journal.tally = json.at("tally").dump();
}

// Calls `read`; what is wrong with `where` becomes an Error.
template <class Read>
void named(const std::string& where, Read read) {
  try {
    read();
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

bool is_journal(const std::filesystem::path& path) {
  constexpr std::string_view kBeginning = "{\"record\":\"campaign\"";
  std::string beginning(kBeginning.size(), '\0');
  std::ifstream file(path);
  return file.read(beginning.data(), static_cast<std::streamsize>(beginning.size())) &&
         beginning == kBeginning;
}

Journal read_journal(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("cannot read {}", path.string()));
  Journal journal;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    journal.bytes += line.size();
    if (file.eof()) break;  // cut off
    journal.whole_bytes = ++journal.bytes;
    const auto read = [&] {
      const Json json = Json::parse(line);
      if (number == 1) {
        if (json.at("record") != "campaign") throw Error("it is no journal of a campaign");
        journal.header = read_header(json);
      } else {
        read_progress(json, journal);
      }
    };
    named(fmt::format("{}:{}", path.string(), number), read);
  }
  if (journal.whole_bytes == 0) {
    throw Error(fmt::format("{}: not even a journal's header is in it", path.string()));
  }
  return journal;
}

Tally Journal::read_tally(const Domain& domain, const Tables& tables) const {
  if (tally.empty()) return Tally(domain, tables);
  std::optional<Tally> result;
  named("the journal",
        [&] { result.emplace(tally_from_json(Json::parse(tally), failures, domain, tables)); });
  return *result;
}

}  // namespace shardproof
