#include "harness/check/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/check/domain.h"
#include "harness/model/keys.h"

namespace shardproof {
namespace {

constexpr std::size_t kMostOthers = 6;  // values of a choice tried besides the shrunk one

// What a field's value looks like in the case's text.
std::string text_of(const Field& field, const Case& value, const Vocabulary& vocabulary) {
  const Key* key = find_key(field.key);
  const std::string printed = key != nullptr ? key->print(value) : "";
  if (is_choice(field, vocabulary)) return printed.empty() ? "default" : printed;
  return fmt::format("{}", field.get(value, vocabulary));
}

// The values to try instead of `now`: the first of a choice's, the next ones of a size.
std::vector<Index> others(const Field& field, Index now, const Vocabulary& vocabulary) {
  std::vector<Index> result;
  const Index last = field.largest(false, vocabulary);
  if (!is_choice(field, vocabulary)) {
    for (Index value : {now + 1, now + 2, 2 * now + 3}) {
      if (value <= last) result.push_back(value);
    }
    return result;
  }
  for (Index value = 0; value <= last && result.size() < kMostOthers; ++value) {
    if (value != now) result.push_back(value);
  }
  return result;
}

struct Explanation {
  std::vector<std::string> needs, any, mixed;

  std::string text() const {
    std::vector<std::string> parts;
    if (!needs.empty()) parts.push_back(fmt::format("needs {}", fmt::join(needs, ", ")));
    if (!any.empty()) parts.push_back(fmt::format("any {}", fmt::join(any, ", ")));
    for (const std::string& each : mixed) parts.push_back(each);
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

class Explainer {
 public:
  Explainer(const Case& shrunk, const Subject& subject, const Vocabulary& vocabulary,
            const StillFails& still_fails)
      : shrunk_(shrunk), subject_(subject), vocabulary_(vocabulary), still_fails_(still_fails) {}

  std::string run() {
    for (const Field& field : all_fields()) {
      if (is_used(field, shrunk_)) vary(field);
    }
    return result_.text();
  }

 private:
  void vary(const Field& field) {
    const Index now = field.get(shrunk_, vocabulary_);
    std::vector<std::string> failing, holding;
    for (Index other : others(field, now, vocabulary_)) {
      Case changed = shrunk_;
      field.set(changed, other, vocabulary_);
      settle(changed, subject_);
      // Repair may undo the change, or have to change other fields with it.
      if (field.get(changed, vocabulary_) != other) continue;
      auto& side = still_fails_(changed) ? failing : holding;
      side.push_back(text_of(field, changed, vocabulary_));
    }
    if (failing.empty() && holding.empty()) return;
    const std::string here = text_of(field, shrunk_, vocabulary_);
    const bool is_size = !is_choice(field, vocabulary_);
    if (holding.empty()) {
      const bool least = now <= field.simplest || !is_size;
      auto& list = least ? result_.any : result_.needs;
      list.push_back(least ? std::string(field.name) : fmt::format("{} >= {}", field.name, here));
    } else if (failing.empty()) {
      result_.needs.push_back(fmt::format("{}={}", field.name, here));
    } else {
      failing.insert(failing.begin(), here);
      result_.mixed.push_back(fmt::format("{}={} but not {}", field.name,
                                          fmt::join(failing, " or "), fmt::join(holding, " or ")));
    }
  }

  const Case& shrunk_;
  const Subject& subject_;
  const Vocabulary& vocabulary_;
  const StillFails& still_fails_;
  Explanation result_;
};

}  // namespace

std::string explain(const Case& shrunk, const Subject& subject, const Vocabulary& vocabulary,
                    const StillFails& still_fails) {
  return Explainer(shrunk, subject, vocabulary, still_fails).run();
}

}  // namespace shardproof
