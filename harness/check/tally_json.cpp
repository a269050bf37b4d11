#include "harness/check/tally_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "harness/model/require.h"

namespace shardproof {
namespace {

// JSON has no NaN and no infinity.
Json from_real(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

double to_real(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return std::strtod(json.get<std::string>().c_str(), nullptr);
}

Json from_limits(const Limits& limits) {
  Json result = Json::array();
  for (std::size_t i = 0; i < limits.counts().size(); ++i) {
    if (limits.counts()[i] > 0) result.push_back({i, limits.counts()[i]});
  }
  return result;
}

Limits to_limits(const Json& json) {
  Limits::Counts counts{};
  for (const Json& each : json) counts.at(each.at(0)) = each.at(1);
  Limits result;
  result.join(counts);
  return result;
}

DType to_dtype(const Json& json) {
  const auto name = json.get<std::string>();
  for (DType dtype : all_dtypes()) {
    if (format(dtype).name == name) return dtype;
  }
  throw Error(fmt::format("unknown dtype '{}'", name));
}

int to_property(const Json& json, const Tables& tables) {
  const auto name = json.get<std::string>();
  if (name == property_name(PropertyResult::kRun, tables)) return PropertyResult::kRun;
  for (std::size_t i = 0; i < tables.properties.size(); ++i) {
    if (tables.properties[i]->name == name) return static_cast<int>(i);
  }
  throw Error(fmt::format("unknown property '{}'", name));
}

VerdictKind to_kind(const Json& json) {
  const auto text = json.get<std::string>();
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    if (name(static_cast<VerdictKind>(kind)) == text) return static_cast<VerdictKind>(kind);
  }
  throw Error(fmt::format("unknown verdict '{}'", text));
}

Json from_counts(const Tally& tally) {
  Json result = Json::array();
  for (const auto& [key, counts] : tally.by_property) {
    result.push_back({key.first, property_name(key.second, tally.tables), counts});
  }
  return result;
}

Json from_numbers(const Tally& tally) {
  Json ratios = Json::array();
  for (const auto& [key, worst] : tally.ratios) {
    ratios.push_back({key.first, key.second, from_real(worst.sharded), from_real(worst.single),
                      worst.sharded_case});
  }
  Json power = Json::array();
  for (const auto& [key, each] : tally.power) {
    const auto& [op, tensor, dtype] = key;
    power.push_back(
        {op, tensor, format(dtype).name, from_limits(each.limit), from_limits(each.baseline)});
  }
  Json pools = Json::array();
  for (const auto& [key, pool] : tally.pools) {
    pools.push_back({key.subject, key.tensor, format(key.dtype).name, pool.cases(), pool.sum()});
  }
  return {{"ratios", ratios}, {"power", power}, {"pools", pools}};
}

void add_numbers(Tally& tally, const Json& json) {
  for (const Json& each : json.at("ratios")) {
    tally.ratios[{each.at(0), each.at(1)}] = {to_real(each.at(2)), to_real(each.at(3)), each.at(4)};
  }
  for (const Json& each : json.at("power")) {
    tally.power[{each.at(0), each.at(1), to_dtype(each.at(2))}] = {to_limits(each.at(3)),
                                                                   to_limits(each.at(4))};
  }
  for (const Json& each : json.at("pools")) {
    tally.pools[{each.at(0), each.at(1), to_dtype(each.at(2))}].join(each.at(3), each.at(4));
  }
}

}  // namespace

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json failure_to_json(const Failure& failure) {
  const Verdict& verdict = failure.verdict;
  return {{"signature", failure.signature},     {"subject", failure.subject},
          {"property", failure.property},       {"number", failure.number},
          {"origin", failure.origin},           {"found", failure.found},
          {"shrunk", failure.shrunk},           {"golden", failure.golden},
          {"unstored", failure.unstored},       {"verdict", name(verdict.kind)},
          {"message", verdict.message},         {"symptom", verdict.symptom},
          {"tensor", verdict.tensor},           {"element", verdict.element},
          {"got", from_real(verdict.got)},      {"want", from_real(verdict.want)},
          {"bound", from_real(verdict.bound)},  {"diagnosis", failure.diagnosis},
          {"explanation", failure.explanation}, {"evaluations", failure.evaluations},
          {"minimal", failure.is_minimal},      {"repeatable", failure.is_repeatable}};
}

Failure failure_from_json(const Json& json) {
  Failure failure;
  json.at("signature").get_to(failure.signature);
  json.at("subject").get_to(failure.subject);
  json.at("property").get_to(failure.property);
  json.at("number").get_to(failure.number);
  json.at("origin").get_to(failure.origin);
  json.at("found").get_to(failure.found);
  json.at("shrunk").get_to(failure.shrunk);
  json.at("golden").get_to(failure.golden);
  json.at("unstored").get_to(failure.unstored);
  failure.verdict.kind = to_kind(json.at("verdict"));
  json.at("message").get_to(failure.verdict.message);
  json.at("symptom").get_to(failure.verdict.symptom);
  json.at("tensor").get_to(failure.verdict.tensor);
  json.at("element").get_to(failure.verdict.element);
  failure.verdict.got = to_real(json.at("got"));
  failure.verdict.want = to_real(json.at("want"));
  failure.verdict.bound = to_real(json.at("bound"));
  json.at("diagnosis").get_to(failure.diagnosis);
  json.at("explanation").get_to(failure.explanation);
  json.at("evaluations").get_to(failure.evaluations);
  json.at("minimal").get_to(failure.is_minimal);
  json.at("repeatable").get_to(failure.is_repeatable);
  return failure;
}

Json tally_to_json(const Tally& tally) {
  Json times = Json::array();
  for (const Failure& failure : tally.failures) times.push_back(failure.times);
  Json result{{"stored", tally.stored},
              {"kinds", tally.kinds},
              {"digest", tally.digest},
              {"seconds", tally.seconds},
              {"times", times},
              {"left_out", tally.failures_left_out},
              {"tensors", tally.tensors},
              {"powerless", tally.powerless_tensors},
              {"coverage", tally.coverage.first()},
              {"by_property", from_counts(tally)},
              {"reasons", tally.reasons}};
  result.update(from_numbers(tally));
  return result;
}

Tally tally_from_json(const Json& json, std::vector<Failure> failures, const Domain& domain,
                      const Tables& tables) {
  Tally tally(domain, tables);
  json.at("stored").get_to(tally.stored);
  json.at("kinds").get_to(tally.kinds);
  json.at("digest").get_to(tally.digest);
  json.at("seconds").get_to(tally.seconds);
  json.at("left_out").get_to(tally.failures_left_out);
  json.at("tensors").get_to(tally.tensors);
  json.at("powerless").get_to(tally.powerless_tensors);
  tally.coverage.join(json.at("coverage").get<std::vector<std::uint64_t>>());
  for (const Json& each : json.at("by_property")) {
    tally.by_property[{each.at(0), to_property(each.at(1), tables)}] = each.at(2);
  }
  json.at("reasons").get_to(tally.reasons);
  add_numbers(tally, json);
  const Json& times = json.at("times");
  if (times.size() != failures.size()) throw Error("a failure is missing");
  for (std::size_t i = 0; i < failures.size(); ++i) failures[i].times = times.at(i);
  tally.failures = std::move(failures);
  return tally;
}

}  // namespace shardproof
