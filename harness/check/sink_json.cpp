#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/check/sink.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

using Json = nlohmann::ordered_json;

void add_verdict(Json& record, const Verdict& verdict) {
  record["verdict"] = name(verdict.kind);
  record["message"] = verdict.message;
  if (verdict.symptom.empty()) return;
  record["symptom"] = verdict.symptom;
  record["tensor"] = verdict.tensor;
  record["element"] = verdict.element;
  record["got"] = verdict.got;
  record["want"] = verdict.want;
  record["bound"] = verdict.bound;
}

class JsonSink : public Sink {
 public:
  JsonSink(const std::string& path, bool append)
      : path_(path), file_(path, append ? std::ios::app : std::ios::out) {
    if (!file_) throw Error(fmt::format("--json: cannot write {}", path));
  }

  void on_case(const Judged& judged, const Tally& tally) override {
    const CaseResult& result = judged.result;
    if (result.overall == VerdictKind::kHolds) return;
    Json record{{"record", "verdict"}, {"case", to_text(judged.value)}, {"number", judged.number}};
    if (!judged.origin.empty()) record["origin"] = judged.origin;
    record["verdict"] = name(result.overall);
    if (result.overall == VerdictKind::kRefused) record["message"] = result.refusal;
    const PropertyResult* main = result.first_failure();
    for (const PropertyResult& each : result.properties) {
      if (!main && each.verdict.kind == result.overall) main = &each;
    }
    if (main) {
      record["property"] = property_name(main->property, tally.tables);
      add_verdict(record, main->verdict);
    }
    add_others(record, result, main, tally);
    write(record);
  }

  void on_failure(const Failure& failure, const Tally&) override {
    Json record{{"record", "failure"},
                {"signature", failure.signature},
                {"subject", failure.subject},
                {"property", failure.property},
                {"number", failure.number},
                {"found", failure.found},
                {"shrunk", failure.shrunk},
                {"evaluations", failure.evaluations},
                {"minimal", failure.is_minimal},
                {"repeatable", failure.is_repeatable},
                {"golden", failure.golden},
                {"unstored", failure.unstored},
                {"diagnosis", failure.diagnosis},
                {"explanation", failure.explanation}};
    add_verdict(record, failure.verdict);
    write(record);
  }

  void on_end(const Tally& tally) override {
    Json record{{"record", "summary"}, {"cases", tally.cases()}};
    for (int kind = 0; kind < kVerdictKinds; ++kind) {
      const auto each = static_cast<VerdictKind>(kind);
      record[std::string(name(each))] = tally.count(each);
    }
    record["seconds"] = tally.seconds;
    record["cases_per_second"] = tally.cases_per_second();
    record["seed"] = tally.seed;
    if (!tally.part.empty()) record["part"] = tally.part;
    record["digest"] = fmt::format("{:016x}", tally.digest);
    record["jobs"] = tally.jobs;
    record["interrupted"] = tally.interrupted;
    record["distinct_failures"] = tally.failures.size();
    const Coverage::Count coverage = tally.coverage.total();
    record["pairs_covered"] = coverage.covered;
    record["pairs_possible"] = coverage.possible;
    record["last_new_pair_by_case"] = tally.coverage.last_new();
    Json ratios = Json::array();
    for (const auto& [key, worst] : tally.ratios) {
      ratios.push_back({{"operator", key.first},
                        {"tensor", key.second},
                        {"sharded", worst.sharded},
                        {"single", worst.single},
                        {"case", worst.sharded_case}});
    }
    record["worst_ratios"] = ratios;
    Json limits = Json::array();
    for (const auto& [key, power] : tally.power) {
      limits.push_back({{"operator", std::get<0>(key)},
                        {"tensor", std::get<1>(key)},
                        {"dtype", format(std::get<2>(key)).name},
                        {"median", power.limit.quantile(0.5)},
                        {"median_twice_baseline", power.baseline.quantile(0.5)}});
    }
    record["detection_limits"] = limits;
    Json pools = Json::array();
    for (const auto& [key, pool] : tally.pools) {
      pools.push_back({{"subject", key.subject},
                       {"tensor", key.tensor},
                       {"dtype", format(key.dtype).name},
                       {"cases", pool.cases()},
                       {"rms", pool.rms()},
                       {"limit", pool.limit()}});
    }
    record["pools"] = pools;
    record["tensors"] = tally.tensors;
    record["powerless_tensors"] = tally.powerless_tensors;
    record["reasons"] = tally.reasons;
    write(record);
    file_.flush();
  }

  std::string trouble() const override {
    return file_ ? "" : fmt::format("--json: cannot write {} to its end", path_);
  }

 private:
  // The other properties that a failing case fails.
  static void add_others(Json& record, const CaseResult& result, const PropertyResult* main,
                         const Tally& tally) {
    Json others = Json::array();
    for (const PropertyResult& each : result.properties) {
      if (&each == main || !is_failure(each.verdict.kind)) continue;
      others.push_back(property_name(each.property, tally.tables));
    }
    if (!others.empty()) record["also"] = others;
  }

  void write(const Json& record) {
    file_ << record.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }

  std::string path_;
  std::ofstream file_;
};

}  // namespace

std::unique_ptr<Sink> make_json_sink(const std::string& path, bool append) {
  return std::make_unique<JsonSink>(path, append);
}

}  // namespace shardproof
