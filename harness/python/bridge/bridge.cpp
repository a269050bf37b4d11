// The plugin through which Python functions are subjects. What they promise stands in a manifest
// (JSON; the environment's SHARDPROOF_PYTHON_MANIFEST) that the Python package writes. They run in
// a Python process of their own, started at the first call: tensors go there and back through
// shared memory, requests and answers as JSON through a socket. A function that crashes, hangs or
// prints does it there.
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "harness/python/bridge/server.h"

namespace shardproof_python {
namespace {

constexpr std::size_t kMostSubjects = 16;
const std::array<std::string, 5> kDtypes{"f64", "f32", "tf32", "bf16", "f16"};

shardproof_dtype dtype_of(const std::string& name) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i] == name) return static_cast<shardproof_dtype>(i);
  }
  throw std::runtime_error("unknown dtype " + name);
}

struct Entry {
  std::string name, op, summary;
  Json precision;
  Json options;
};

struct Manifest {
  Json json;
  std::vector<Entry> entries;
  std::vector<shardproof_subject> subjects;
};

Manifest& manifest() {
  static Manifest manifest;
  return manifest;
}

Server& server() {
  static Server server(manifest().json);
  return server;
}

// The tensors of a phase: those that are read, then those that are written.
struct Tensors {
  std::vector<std::string> read, written;
};

Tensors tensors_of(const shardproof_problem& problem, bool backward) {
  const std::string op = problem.op;
  std::vector<std::string> inputs, outputs, upstream;
  if (op == "attention") {
    inputs = {"q", "k", "v"};
    if (problem.has_bias) inputs.emplace_back("bias");
    if (problem.has_sink) inputs.emplace_back("sink");
    outputs = {"out", "lse"};
    upstream = {"dout", "dlse"};
  } else {
    inputs = {"x", "w1", "b1", "w2", "b2"};
    if (problem.gated) inputs.insert(inputs.end(), {"wg", "bg"});
    outputs = {"y"};
    upstream = {"dy"};
  }
  if (!backward) return {inputs, outputs};
  Tensors tensors{inputs, {}};
  for (const auto* names : {&outputs, &upstream}) {
    tensors.read.insert(tensors.read.end(), names->begin(), names->end());
  }
  for (const std::string& name : inputs) tensors.written.push_back("d" + name);
  return tensors;
}

Json describe(const shardproof_problem& p) {
  return {{"dtype", kDtypes[p.dtype]},  {"scale", p.scale},       {"softcap", p.softcap},
          {"activation", p.activation}, {"gated", p.gated != 0},  {"batch", p.batch},
          {"heads", p.heads},           {"kv_heads", p.kv_heads}, {"world", p.world},
          {"queries", p.queries},       {"keys", p.keys}};
}

// Which of the rank's queries see which of its batch's keys, a byte each: [batch, queries, keys].
void put_mask(shardproof_rank* rank, Json& request) {
  const shardproof_problem& p = *rank->problem;
  const std::vector<std::int64_t> shape{p.batch, p.queries, p.keys};
  auto* bytes = server().put("mask", "bool", shape, 1, request);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t i = 0; i < p.queries; ++i) {
      for (std::int64_t j = 0; j < p.keys; ++j) {
        *bytes++ = rank->host->visible(rank, b, i, j) != 0 ? std::byte{1} : std::byte{0};
      }
    }
  }
}

// Runs a phase of a subject on a rank. Throws what went wrong.
void run(const Entry& entry, shardproof_rank* rank, bool backward) {
  const Tensors names = tensors_of(*rank->problem, backward);
  Json request{{"subject", entry.name},
               {"phase", backward ? "backward" : "forward"},
               {"problem", describe(*rank->problem)},
               {"tensors", Json::object()}};
  std::map<std::string, DLTensor> views;
  std::size_t bytes = 0;
  const auto look_at = [&](const std::string& name) {
    fail_with(rank->host->tensor(rank, name.c_str(), &views[name]));
    bytes += Server::room(views[name]);
  };
  for (const std::string& name : names.read) look_at(name);
  for (const std::string& name : names.written) look_at(name);
  const shardproof_problem& p = *rank->problem;
  const bool attends = entry.op == "attention";
  if (attends) bytes += static_cast<std::size_t>(p.batch * p.queries * p.keys) + Server::kAlign;
  server().start_request(bytes);
  for (const std::string& name : names.read) server().put(name, views[name], request);
  for (const std::string& name : names.written) server().put(name, views[name], request);
  if (attends) put_mask(rank, request);
  server().converse(request);
  for (const auto& [name, view] : views) server().get(name, view, request);
}

template <std::size_t kSlot, bool kBackward>
const char* run_slot(shardproof_rank* rank) {
  static std::string error;
  try {
    run(manifest().entries[kSlot], rank, kBackward);
    return nullptr;
  } catch (const std::exception& exception) {
    error = exception.what();
    return error.c_str();
  }
}

template <std::size_t kSlot>
void contract_of_slot(const shardproof_problem*, shardproof_contract* promised) {
  const std::map<std::string, shardproof_dtype*> dtypes{
      {"accumulator", &promised->accumulator},
      {"elementwise", &promised->elementwise},
      {"score", &promised->score},
      {"probability", &promised->probability},
      {"score_gradient", &promised->score_gradient},
      {"saved_out", &promised->saved_out},
      {"lse", &promised->lse},
      {"operand", &promised->operand},
      {"middle", &promised->middle}};
  const std::map<std::string, double*> numbers{{"ulp_exp", &promised->ulp_exp},
                                               {"ulp_log", &promised->ulp_log},
                                               {"ulp_tanh", &promised->ulp_tanh},
                                               {"ulp_erf", &promised->ulp_erf}};
  const std::map<std::string, int*> counts{{"truncating", &promised->truncating},
                                           {"rescales", &promised->rescales},
                                           {"repeatable", &promised->repeatable},
                                           {"hidden_may_be_nan", &promised->hidden_may_be_nan}};
  for (const auto& [field, value] : manifest().entries[kSlot].precision.items()) {
    if (dtypes.contains(field)) *dtypes.at(field) = dtype_of(value);
    if (numbers.contains(field)) *numbers.at(field) = value;
    if (counts.contains(field)) *counts.at(field) = value;
  }
}

template <std::size_t kSlot>
void fill_slot(shardproof_subject& subject) {
  subject.contract = contract_of_slot<kSlot>;
  subject.sharded_forward = run_slot<kSlot, false>;
  subject.sharded_backward = run_slot<kSlot, true>;
}

using Fill = void (*)(shardproof_subject&);
template <std::size_t... kSlots>
constexpr std::array<Fill, sizeof...(kSlots)> fills(std::index_sequence<kSlots...>) {
  return {fill_slot<kSlots>...};
}

std::uint32_t bits_of(const Json& names, const std::map<std::string, std::uint32_t>& bits) {
  std::uint32_t result = 0;
  for (const std::string name : names) result |= bits.at(name);
  return result;
}

void read_manifest() {
  const char* path = std::getenv("SHARDPROOF_PYTHON_MANIFEST");
  if (path == nullptr) throw std::runtime_error("SHARDPROOF_PYTHON_MANIFEST is not set");
  Manifest& read = manifest();
  read.json = Json::parse(std::ifstream(path));
  const Json& subjects = read.json.at("subjects");
  if (subjects.size() > kMostSubjects) throw std::runtime_error("more than 16 Python subjects");
  const std::map<std::string, std::uint32_t> features{{"softcap", SHARDPROOF_SOFTCAP},
                                                      {"bias", SHARDPROOF_BIAS},
                                                      {"gated", SHARDPROOF_GATED},
                                                      {"sink", SHARDPROOF_SINK}};
  const std::map<std::string, std::uint32_t> limits{{"same_dims", SHARDPROOF_SAME_DIMS},
                                                    {"same_heads", SHARDPROOF_SAME_HEADS},
                                                    {"same_lengths", SHARDPROOF_SAME_LENGTHS},
                                                    {"dims_of_8", SHARDPROOF_DIMS_OF_8}};
  std::map<std::string, std::uint32_t> dtypes;
  for (const std::string& name : kDtypes) dtypes[name] = SHARDPROOF_DTYPE(dtype_of(name));
  for (const Json& json : subjects) {
    read.entries.push_back(
        {json.at("name"), json.at("op"), json.at("summary"), json.at("precision"), json});
  }
  constexpr auto kFill = fills(std::make_index_sequence<kMostSubjects>());
  for (std::size_t i = 0; i < read.entries.size(); ++i) {
    const Entry& entry = read.entries[i];
    shardproof_subject subject{};
    subject.name = entry.name.c_str();
    subject.op = entry.op.c_str();
    subject.summary = entry.summary.c_str();
    subject.dtypes = bits_of(entry.options.at("dtypes"), dtypes);
    subject.features = bits_of(entry.options.at("features"), features);
    subject.limits = bits_of(entry.options.at("limits"), limits);
    kFill[i](subject);
    read.subjects.push_back(subject);
  }
}

}  // namespace
}  // namespace shardproof_python

const shardproof_plugin* shardproof_plugin_v1(void) {
  using namespace shardproof_python;
  static shardproof_plugin plugin;
  try {
    read_manifest();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardproof: Python subjects cannot be read: %s\n", error.what());
    return nullptr;
  }
  plugin = {SHARDPROOF_PLUGIN_VERSION, sizeof(shardproof_subject),
            static_cast<std::uint32_t>(manifest().subjects.size()), manifest().subjects.data()};
  return &plugin;
}
