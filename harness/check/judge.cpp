#include "harness/check/judge.h"

#include <algorithm>
#include <array>
#include <memory>

#include "harness/model/require.h"

namespace shardproof {
namespace {

template <typename Entry>
const Entry* find_named(const std::vector<const Entry*>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry* entry) { return entry->name == name; });
  return found == entries.end() ? nullptr : *found;
}

// The reference's answer for one run, evaluated at most once per effort.
class Reference {
 public:
  explicit Reference(const Run& run) : run_(run) {}

  const Expected& at(Effort effort) {
    if (!evaluated_ || effort > effort_) {
      const Problem& problem = run_.value.problem;
      expected_ = problem.op->evaluate(problem, run_.contract, effort);
      effort_ = effort;
      evaluated_ = true;
    }
    return expected_;
  }

 private:
  const Run& run_;
  Expected expected_;
  Effort effort_ = Effort::kValues;
  bool evaluated_ = false;
};

std::vector<Cost> costs_of(const Case& value, const Subject& subject) {
  std::vector<Cost> result;
  result.reserve(static_cast<std::size_t>(value.placement.mesh.ranks()));
  for (int rank = 0; rank < value.placement.mesh.ranks(); ++rank) {
    result.push_back(subject.cost(value, rank));
  }
  return result;
}

std::string refusal_of(const Case& value, const Subject& subject) {
  if (subject.op != value.problem.op->name) {
    return std::string(subject.name)
        .append(" computes ")
        .append(subject.op)
        .append(", not ")
        .append(value.problem.op->name);
  }
  return refusal(subject, value);
}

}  // namespace

Vocabulary Tables::vocabulary() const {
  Vocabulary result;
  result.operators = operators;
  result.masks = masks;
  for (const Subject* entry : subjects) result.subjects.push_back(entry->name);
  for (const WorldEntry& entry : worlds) result.worlds.push_back(entry.name);
  for (const DeviceEntry& entry : devices) result.devices.push_back(entry.name);
  return result;
}

const Subject* Tables::subject(std::string_view name) const { return find_named(subjects, name); }

const Property* Tables::property(std::string_view name) const {
  return find_named(properties, name);
}

const Judgement* CaseReport::first_failure() const {
  const auto found = std::find_if(judgements.begin(), judgements.end(), [](const Judgement& each) {
    return is_failure(each.verdict.kind);
  });
  return found == judgements.end() ? nullptr : &*found;
}

VerdictKind overall(const std::vector<Judgement>& judgements) {
  bool powerless = false;
  std::array<bool, kVerdictKinds> seen{};
  for (const Judgement& judgement : judgements) {
    const VerdictKind kind = judgement.verdict.kind;
    seen[static_cast<std::size_t>(kind)] = true;
    if (kind == VerdictKind::kVacuous && judgement.property->name == "matches_reference") {
      powerless = true;
    }
  }
  for (VerdictKind kind : {VerdictKind::kCrashed, VerdictKind::kDeadlocked, VerdictKind::kTimedOut,
                           VerdictKind::kFalsified}) {
    if (seen[static_cast<std::size_t>(kind)]) return kind;
  }
  if (powerless) return VerdictKind::kVacuous;
  for (VerdictKind kind : {VerdictKind::kHolds, VerdictKind::kVacuous}) {
    if (seen[static_cast<std::size_t>(kind)]) return kind;
  }
  return VerdictKind::kDiscarded;
}

// The runs of one case, each made once, however many properties look at it.
class Judge::Runs {
 public:
  Runs(Judge& judge, const Case& value, const Subject& subject, const RunOptions& options)
      : judge_(judge), subject_(subject), base_(make(value, options)) {}

  const std::shared_ptr<const Run>& base() const { return base_; }
  const std::vector<std::shared_ptr<const Run>>& others() const { return others_; }

  // The run of a variant, afresh when it equals the base; null when the subject cannot run it.
  const Run* variant(const Case& value) {
    if (value == base_->value) return add(value);
    for (const auto& run : others_) {
      if (run->value == value) return run.get();
    }
    const World& world = judge_.world(value.placement.world);
    const bool possible = broken_rule(value).empty() && refusal_of(value, subject_).empty() &&
                          world.unsupported(value.placement.mesh.ranks()).empty();
    return possible ? add(value) : nullptr;
  }

 private:
  std::shared_ptr<const Run> make(const Case& value, const RunOptions& options) {
    auto run = std::make_shared<Run>();
    run->value = value;
    run->subject = &subject_;
    run->contract = subject_.contract(value);
    run->outcome = judge_.world(value.placement.world).run(value, subject_, options);
    auto reference = std::make_shared<Reference>(*run);
    run->expected = [reference](Effort effort) -> const Expected& { return reference->at(effort); };
    run->costs = [&made = *run, costs = std::vector<Cost>()]() mutable -> const std::vector<Cost>& {
      if (costs.empty()) costs = costs_of(made.value, *made.subject);
      return costs;
    };
    return run;
  }

  const Run* add(const Case& value) {
    others_.push_back(make(value, {.keep_trace = false, .looks_at_signals = false}));
    return others_.back().get();
  }

  Judge& judge_;
  const Subject& subject_;
  std::shared_ptr<const Run> base_;
  std::vector<std::shared_ptr<const Run>> others_;
};

Judge::Judge(const Tables& tables, double case_seconds)
    : tables_(tables), case_seconds_(case_seconds) {}

Judge::~Judge() = default;

Verdict Judge::judge_one(const Property& property, Runs& runs) {
  const Run& base = *runs.base();
  if (property.inapplicable != nullptr) {
    std::string why = property.inapplicable(base.value, *base.subject);
    if (!why.empty()) return Verdict::discarded(std::move(why));
  }
  std::vector<const Run*> variants;
  if (property.variants != nullptr && base.outcome.ending == Ending::kCompleted) {
    for (const Case& value : property.variants(base.value, *base.subject)) {
      const Run* run = runs.variant(value);
      if (run == nullptr) continue;
      if (!property.judges_endings && run->outcome.ending != Ending::kCompleted) {
        Verdict verdict = verdict_of_ending(run->outcome);
        verdict.message += "\nin " + to_text(value);
        return verdict;
      }
      variants.push_back(run);
      if (!property.fails_by_all) continue;
      Verdict so_far = property.judge({base, variants});
      if (!is_failure(so_far.kind)) return so_far;
    }
    if (variants.empty()) return Verdict::discarded("no other run of this case is supported");
  }
  return property.judge({base, variants});
}

World& Judge::world(std::string_view name) {
  const auto known = worlds_.find(name);
  if (known != worlds_.end()) return *known->second;
  for (const WorldEntry& entry : tables_.worlds) {
    if (entry.name != name) continue;
    if (const std::string why = why_not(entry, tables_.devices); !why.empty()) {
      throw Error("world " + std::string(name) + " cannot run here: " + why);
    }
    auto made = entry.make(tables_.devices);
    made->limit_ranks(tables_.most_ranks);
    if (case_seconds_ > 0) made->limit_run(case_seconds_ / 2);
    return *worlds_.emplace(name, std::move(made)).first->second;
  }
  throw Error("unknown world '" + std::string(name) + "'");
}

CaseReport Judge::judge(const Case& value, std::span<const Property* const> properties,
                        const RunOptions& options) {
  const bool has_simulation = !tables_.worlds.empty() && tables_.worlds.front().name == "sim";
  if (has_simulation && value.placement.world != "sim") {
    Case rehearsed = value;
    rehearsed.placement.world = "sim";
    CaseReport report = judge_in_its_world(rehearsed, properties, options);
    if (report.first_failure() != nullptr) return report;
  }
  return judge_in_its_world(value, properties, options);
}

CaseReport Judge::judge_in_its_world(const Case& value, std::span<const Property* const> properties,
                                     const RunOptions& options) {
  CaseReport report;
  report.value = value;
  const Subject* subject = tables_.subject(value.placement.subject);
  if (subject == nullptr) throw Error("unknown subject '" + value.placement.subject + "'");
  set_case_for_require(to_text(value));
  report.refusal = refusal_of(value, *subject);
  if (report.refusal.empty()) {
    report.refusal = world(value.placement.world).unsupported(value.placement.mesh.ranks());
  }
  if (!report.refusal.empty()) {
    report.overall = VerdictKind::kRefused;
    return report;
  }
  if (properties.empty()) properties = tables_.properties;

  Runs runs(*this, value, *subject, options);
  report.base = runs.base();
  const bool completed = report.base->outcome.ending == Ending::kCompleted;
  for (const Property* property : properties) {
    if (!completed && !property->judges_endings) continue;
    report.judgements.push_back({property, judge_one(*property, runs)});
  }
  // A bad ending is never lost, whichever properties were asked.
  if (!completed && report.first_failure() == nullptr) {
    report.judgements.push_back({properties.front(), verdict_of_ending(report.base->outcome)});
  }
  report.variants = runs.others();
  report.overall = shardproof::overall(report.judgements);
  return report;
}

}  // namespace shardproof
