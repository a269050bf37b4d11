// Journal: the file that a campaign can be resumed from and merged by. JSON lines: a header that
// says which cases are drawn and judged, then now and then all that the campaign knows. Lines are
// only appended, each by one write; a last line without its end is one that a kill cut off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/check/campaign.h"

namespace shardproof {

struct JournalHeader {
  static constexpr int kFormat = 1;

  std::string version;
  std::string commit;
  std::map<std::string, std::string> flags;  // "--seed": "7"
  std::vector<StoredCase> stored;            // of the whole campaign, not of its part alone
};

struct Journal {
  JournalHeader header;
  std::vector<Failure> failures;
  std::string tally;  // JSON of the last whole record; empty: nothing was judged yet
  bool ended = false;
  std::uint64_t whole_bytes = 0;  // up to the end of the last whole line
  std::uint64_t bytes = 0;        // of the file

  // What the campaign knew. Throws Error when this domain is not the campaign's.
  Tally read_tally(const Domain& domain, const Tables& tables) const;
};

// Whether a file begins like a journal. False when it cannot be read.
bool is_journal(const std::filesystem::path& path);

// Throws Error when it is none or is damaged in front of its last line.
Journal read_journal(const std::filesystem::path& path);

// A new journal. Throws Error when the file exists with something in it, or cannot be written.
std::unique_ptr<Sink> make_journal_sink(const std::filesystem::path& path,
                                        const JournalHeader& header);

// Goes on in a journal that was read: cuts off what is not whole. Throws Error when it cannot be
// written or another campaign is writing to it.
std::unique_ptr<Sink> resume_journal_sink(const std::filesystem::path& path,
                                          const Journal& journal);

}  // namespace shardproof
