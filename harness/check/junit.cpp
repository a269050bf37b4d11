#include "harness/check/junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::string_view kFailed = "FAILED  ";  // in front of a failure's signature

constexpr std::array<std::pair<char, std::string_view>, 4> kEscapes{
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}}};

std::string escaped(std::string_view text) {
  std::string result;
  for (char letter : text) {
    const auto found = std::find_if(kEscapes.begin(), kEscapes.end(),
                                    [&](const auto& each) { return each.first == letter; });
    if (found != kEscapes.end()) {
      result += found->second;
    } else {
      // Other control characters cannot stand in XML at all.
      result += static_cast<unsigned char>(letter) < ' ' && letter != '\n' ? '?' : letter;
    }
  }
  return result;
}

std::string unescaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto found = std::find_if(kEscapes.begin(), kEscapes.end(), [&](const auto& each) {
      return text.starts_with(each.second);
    });
    const bool is_escape = found != kEscapes.end();
    result += is_escape ? found->first : text.front();
    text.remove_prefix(is_escape ? found->second.size() : 1);
  }
  return result;
}

bool fails(const KindCounts& counts) {
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    const auto each = static_cast<VerdictKind>(kind);
    if (is_failure(each) && counts[static_cast<std::size_t>(kind)] > 0) return true;
  }
  return false;
}

// Takes what lies in front of `end`, and `end`, from the front of `text`.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const auto at = text.find(end);
  if (at == std::string_view::npos) {
    throw Error(fmt::format("no JUnit file of this program, or not whole: no '{}'", end));
  }
  const std::string_view result = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return result;
}

// Blocks of a line with the signature and further lines.
std::map<std::string, std::string> parse_failures(const std::string& text) {
  std::map<std::string, std::string> result;
  std::string* current = nullptr;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with(kFailed)) {
      current = &result[line.substr(kFailed.size())];
    } else if (current != nullptr) {
      current->append(line).append("\n");
    }
  }
  return result;
}

}  // namespace

Junit Junit::of(const Tally& tally) {
  Junit result;
  result.seconds = tally.seconds;
  for (const auto& [key, counts] : tally.by_property) {
    const std::string property(property_name(key.second, tally.tables));
    JunitCase& each = result.cases[{key.first, property}];
    each.fails = shardproof::fails(counts);
    each.is_judged = counts[static_cast<std::size_t>(VerdictKind::kHolds)] > 0;
    for (const Failure& failure : tally.failures) {
      if (failure.subject != key.first || failure.property != property) continue;
      each.failures[failure.signature] = failure.shrunk + "\n" + failure.verdict.message + "\n";
    }
  }
  return result;
}

Junit Junit::parse(std::string_view xml) {
  Junit result;
  take_until(xml, "<testsuite name=\"shardproof\" ");
  take_until(xml, " time=\"");
  result.seconds = std::strtod(std::string(take_until(xml, "\">\n")).c_str(), nullptr);
  std::string_view cases = take_until(xml, "</testsuite>\n</testsuites>\n");
  while (!cases.empty()) {
    take_until(cases, "<testcase classname=\"");
    const std::string subject = unescaped(take_until(cases, "\" name=\""));
    const std::string property = unescaped(take_until(cases, "\">\n"));
    std::string_view content = take_until(cases, "</testcase>\n");
    JunitCase& each = result.cases[{subject, property}];
    each.fails = content.starts_with("<failure ");
    each.is_judged = content.empty();
    if (!each.fails) continue;
    take_until(content, "\">");
    each.failures = parse_failures(unescaped(take_until(content, "</failure>")));
  }
  return result;
}

std::string Junit::text() const {
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::string body;
  for (const auto& [key, each] : cases) {
    failed += each.fails;
    body += fmt::format("<testcase classname=\"{}\" name=\"{}\">\n", escaped(key.first),
                        escaped(key.second));
    if (each.fails) {
      body += fmt::format("<failure message=\"{} distinct failures\">", each.failures.size());
      for (const auto& [signature, message] : each.failures) {
        body += escaped(fmt::format("{}{}\n{}", kFailed, signature, message));
      }
      body += "</failure>\n";
    } else if (!each.is_judged) {
      ++skipped;
      body += "<skipped message=\"only vacuous or discarded\"/>\n";
    }
    body += "</testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "<testsuite name=\"shardproof\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"0\" "
      "time=\"{:.3f}\">\n{}</testsuite>\n</testsuites>\n",
      cases.size(), failed, skipped, seconds, body);
}

void Junit::join(const Junit& other) {
  seconds = std::max(seconds, other.seconds);
  for (const auto& [key, from] : other.cases) {
    JunitCase& to = cases[key];
    to.fails = to.fails || from.fails;
    to.is_judged = to.is_judged || from.is_judged;
    to.failures.insert(from.failures.begin(), from.failures.end());
  }
}

}  // namespace shardproof
