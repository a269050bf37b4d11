// Judge: one case against a list of properties, in this process. Runs that several properties need
// are made once; so is the reference.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/check/property.h"

namespace shardproof {

// Everything main knows, passed down.
struct Tables {
  std::vector<const Operator*> operators;
  std::vector<const Mask*> masks;
  std::vector<const Subject*> subjects;  // correct ones and mutants
  std::vector<const Property*> properties;
  std::vector<WorldEntry> worlds;
  std::vector<DeviceEntry> devices;
  std::vector<const Subject*> plugged{};  // of the subjects, those of plugins
  int most_ranks = 0;                     // of a world of processes; 0: as many as a case has

  Vocabulary vocabulary() const;
  const Subject* subject(std::string_view name) const;    // null when unknown
  const Property* property(std::string_view name) const;  // null when unknown
};

struct Judgement {
  const Property* property = nullptr;
  Verdict verdict;
};

struct CaseReport {
  Case value;
  std::vector<Judgement> judgements;  // empty when refused
  VerdictKind overall = VerdictKind::kDiscarded;
  std::string refusal;                               // the subject's reason
  std::shared_ptr<const Run> base;                   // null when refused
  std::vector<std::shared_ptr<const Run>> variants;  // the further runs, as properties asked

  const Judgement* first_failure() const;
};

// The verdict of a case: its gravest judgement; vacuous when no property held, discarded when none
// applied.
VerdictKind overall(const std::vector<Judgement>& judgements);

class Judge {
 public:
  // Worlds that can end a run do so before a case has taken `case_seconds`, the least time that it
  // may take, so that they can say which rank hangs; 0: when they think fit.
  explicit Judge(const Tables& tables, double case_seconds = 0);
  ~Judge();

  // `properties` empty: all in the table. A case of a world of processes is judged in the simulated
  // world first and gets there only if it does not fail.
  CaseReport judge(const Case& value, std::span<const Property* const> properties,
                   const RunOptions& options = {});

 private:
  class Runs;

  CaseReport judge_in_its_world(const Case& value, std::span<const Property* const> properties,
                                const RunOptions& options);
  Verdict judge_one(const Property& property, Runs& runs);
  World& world(std::string_view name);

  const Tables& tables_;
  double case_seconds_;
  std::map<std::string, std::unique_ptr<World>, std::less<>> worlds_;
};

}  // namespace shardproof
