// The flags that say which cases a campaign draws and how it judges them; what a journal keeps of
// them; and what is demanded of a campaign at its end.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "harness/check/journal.h"
#include "harness/command_flags.h"

namespace shardproof {

struct CampaignFlags {
  Restrictions restrictions;
  WorkerFlags workers;
  std::string time;
  std::string cases;
  std::string seed = "0";
  std::string part = "1/1";
  std::string regressions;  // "": those of the project, where there are any
  std::vector<std::string> goldens;
  std::string goldens_out = "golden/found";
  bool require_all = false;

  // Seconds, cases and part. Throws Error.
  CampaignOptions options() const;

  // What --regressions and --goldens name. Throws Error where one cannot be read or parsed.
  std::vector<StoredCase> stored_cases(const Tables& tables) const;
};

void add_campaign_flags(CLI::App& app, CampaignFlags& flags);

// The header of a campaign with the flags that were given.
JournalHeader journal_header(const CLI::App& app, std::vector<StoredCase> stored);

// Sets what the journal says and the command line does not. Throws Error when the two contradict
// each other, or when another version of this program wrote the journal.
void recall_flags(CLI::App& app, const JournalHeader& header);

// --require-all: required classes; a campaign that passed over some of them proves less than it
// seems to. Throws Error.
void require_everything(const Tally& tally);

}  // namespace shardproof
