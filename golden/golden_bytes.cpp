#include "golden/golden_bytes.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <limits>

#include "golden/golden_format.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

// Numbers are kept as they lie in memory: parent and child are one program.
class Writer {
 public:
  std::vector<std::byte> take() { return std::move(bytes_); }

  void number(std::int64_t value) { raw(&value, sizeof value); }
  void real(double value) { raw(&value, sizeof value); }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <typename Number>
  void numbers(const std::vector<Number>& values) {
    number(static_cast<std::int64_t>(values.size()));
    raw(values.data(), values.size() * sizeof(Number));
  }

 private:
  void raw(const void* data, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }

  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  std::int64_t number() {
    std::int64_t value = 0;
    raw(&value, sizeof value);
    return value;
  }
  // A number in [low, high].
  std::int64_t number(std::int64_t low, std::int64_t high) {
    const std::int64_t value = number();
    if (!(value >= low && value <= high)) throw Error("a number is out of range");
    return value;
  }
  double real() {
    double value = 0;
    raw(&value, sizeof value);
    return value;
  }
  std::string text() {
    std::string value(length(1), '\0');
    raw(value.data(), value.size());
    return value;
  }
  template <typename Number>
  std::vector<Number> numbers() {
    std::vector<Number> values(length(sizeof(Number)));
    raw(values.data(), values.size() * sizeof(Number));
    return values;
  }
  // A count of things of at least `bytes` bytes each, of which so many can still follow.
  std::size_t length(std::size_t bytes) {
    return static_cast<std::size_t>(number(0, static_cast<std::int64_t>(rest_.size() / bytes)));
  }

 private:
  void raw(void* target, std::size_t bytes) {
    if (bytes > rest_.size()) throw Error("the data end too early");
    if (bytes > 0) std::memcpy(target, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }

  std::span<const std::byte> rest_;
};

void put(Writer& writer, const std::vector<GoldenTensor>& tensors) {
  writer.number(static_cast<std::int64_t>(tensors.size()));
  for (const GoldenTensor& tensor : tensors) {
    writer.text(tensor.name);
    writer.number(static_cast<std::int64_t>(tensor.dtype));
    writer.number(tensor.shape.rank());
    for (int d = 0; d < tensor.shape.rank(); ++d) writer.number(tensor.shape[d]);
    writer.numbers(tensor.values);
  }
}

std::vector<GoldenTensor> get_tensors(Reader& reader) {
  std::vector<GoldenTensor> tensors(reader.length(8));
  for (GoldenTensor& tensor : tensors) {
    tensor.name = reader.text();
    tensor.dtype = static_cast<DType>(reader.number(0, std::ssize(all_dtypes()) - 1));
    const std::int64_t rank = reader.number(0, Shape::kMaximumRank);
    for (std::int64_t d = 0; d < rank; ++d) tensor.shape.append(reader.number());
    tensor.values = reader.numbers<double>();
  }
  return tensors;
}

void put(Writer& writer, const std::vector<KeptShard>& shards) {
  writer.number(static_cast<std::int64_t>(shards.size()));
  for (const KeptShard& shard : shards) {
    writer.text(shard.tensor);
    writer.number(shard.rank);
    writer.number(static_cast<std::int64_t>(shard.shard.size()));
    for (const auto& indices : shard.shard) writer.numbers(indices);
    writer.numbers(shard.values);
  }
}

constexpr std::int64_t kMaximumInt = std::numeric_limits<int>::max();

std::vector<KeptShard> get_shards(Reader& reader) {
  std::vector<KeptShard> shards(reader.length(8));
  for (KeptShard& shard : shards) {
    shard.tensor = reader.text();
    shard.rank = static_cast<int>(reader.number(0, kMaximumInt));
    shard.shard.resize(static_cast<std::size_t>(reader.number(0, Shape::kMaximumRank)));
    for (auto& indices : shard.shard) indices = reader.numbers<Index>();
    shard.values = reader.numbers<double>();
  }
  return shards;
}

void put(Writer& writer, const Trace& trace) {
  writer.number(static_cast<std::int64_t>(trace.size()));
  for (const Event& event : trace) {
    writer.number(event.rank);
    writer.number(static_cast<std::int64_t>(event.phase));
    writer.text(std::string(event.operation));
    writer.text(event.axis);
    writer.number(event.peer);
    writer.number(event.bytes);
    writer.real(event.start);
    writer.real(event.end);
  }
}

Trace get_trace(Reader& reader) {
  Trace trace(reader.length(8));
  for (Event& event : trace) {
    event.rank = static_cast<int>(reader.number(0, kMaximumInt));
    event.phase = static_cast<Phase>(reader.number(0, 1));
    event.operation = golden_format::known_operation(reader.text());
    event.axis = reader.text();
    event.peer = static_cast<int>(reader.number(-1, kMaximumInt));
    event.bytes = reader.number();
    event.start = reader.real();
    event.end = reader.real();
  }
  return trace;
}

void put(Writer& writer, const Verdict& verdict) {
  writer.number(static_cast<std::int64_t>(verdict.kind));
  for (const std::string* text : {&verdict.message, &verdict.tensor, &verdict.symptom}) {
    writer.text(*text);
  }
  writer.number(verdict.element);
  for (double value : {verdict.got, verdict.want, verdict.bound}) writer.real(value);
}

Verdict get_verdict(Reader& reader) {
  Verdict verdict;
  verdict.kind = static_cast<VerdictKind>(reader.number(0, kVerdictKinds - 1));
  for (std::string* text : {&verdict.message, &verdict.tensor, &verdict.symptom}) {
    *text = reader.text();
  }
  verdict.element = reader.number();
  for (double* value : {&verdict.got, &verdict.want, &verdict.bound}) *value = reader.real();
  return verdict;
}

}  // namespace

std::vector<std::byte> to_bytes(const Golden& golden) {
  Writer writer;
  writer.number(golden.version);
  for (const std::string* text : {&golden.case_text, &golden.property, &golden.contract}) {
    writer.text(*text);
  }
  put(writer, golden.verdict);
  writer.number(static_cast<std::int64_t>(golden.environment.size()));
  for (const auto& [key, value] : golden.environment) {
    writer.text(key);
    writer.text(value);
  }
  for (std::size_t group = 0; group < golden_format::kTensorGroups.size(); ++group) {
    put(writer, golden_format::tensors_of(golden, group));
  }
  put(writer, golden.shards);
  put(writer, golden.trace);
  return writer.take();
}

Golden from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Golden golden;
  golden.version = static_cast<int>(reader.number(0, kMaximumInt));
  for (std::string* text : {&golden.case_text, &golden.property, &golden.contract}) {
    *text = reader.text();
  }
  golden.verdict = get_verdict(reader);
  for (std::size_t left = reader.length(16); left > 0; --left) {
    std::string key = reader.text();
    golden.environment[std::move(key)] = reader.text();
  }
  for (std::size_t group = 0; group < golden_format::kTensorGroups.size(); ++group) {
    golden_format::tensors_of(golden, group) = get_tensors(reader);
  }
  golden.shards = get_shards(reader);
  golden.trace = get_trace(reader);
  if (!reader.at_end()) throw Error("there are bytes after the end of the data");
  if (std::string broken = golden_format::broken_rule(golden); !broken.empty()) throw Error(broken);
  return golden;
}

}  // namespace shardproof
