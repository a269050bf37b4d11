// Reading a golden that may be foreign or damaged: HDF5 runs in a child process with limits, on
// the bytes of the file and only on what the allow-list of Source lets through; the parent checks
// what the child says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "golden/golden_bytes.h"
#include "golden/golden_child.h"
#include "golden/golden_file.h"
#include "golden/golden_format.h"
#include "golden/hdf5_image.h"
#include "golden/hdf5_source.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

using namespace golden_format;  // NOLINT: the layout's own words

constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
// Of the superblock in the file format of HDF5 1.10. Older ones check nothing that they store.
constexpr std::byte kSuperblockVersion{3};

void expect_signature(std::span<const std::byte> image) {
  const auto is_byte = [](std::byte got, unsigned char want) { return got == std::byte{want}; };
  if (image.size() <= kSignature.size() ||
      !std::ranges::equal(image.first(kSignature.size()), kSignature, is_byte)) {
    throw Error("it is not an HDF5 file");
  }
  if (image[kSignature.size()] != kSuperblockVersion) {
    throw Error("it is an HDF5 file of another program: not in the file format of HDF5 1.10");
  }
}

void expect_version(const Source& root) {
  if (!root.has_attribute("format") || root.text_attribute("format") != kFormat) {
    throw Error("it is an HDF5 file of another program, not a golden");
  }
  const std::int64_t version = root.integer_attribute("format_version");
  if (version < 1 || version > Golden::kVersion) {
    throw Error(fmt::format(
        "it has format version {}; this program reads version {}, a newer program may read it",
        version, Golden::kVersion));
  }
}

VerdictKind verdict_kind(const std::string& text) {
  for (int kind = 0; kind < kVerdictKinds; ++kind) {
    if (name(static_cast<VerdictKind>(kind)) == text) return static_cast<VerdictKind>(kind);
  }
  throw Error(fmt::format("it has a verdict '{}', which is none", text));
}

Verdict get_verdict(const Source& root) {
  Verdict verdict;
  verdict.kind = verdict_kind(root.text_attribute("verdict"));
  verdict.message = root.text(std::string(kMessage));
  verdict.tensor = root.text_attribute("tensor");
  verdict.symptom = root.text_attribute("symptom");
  verdict.element = root.integer_attribute("element");
  verdict.got = root.real_attribute("got");
  verdict.want = root.real_attribute("want");
  verdict.bound = root.real_attribute("bound");
  return verdict;
}

int to_int(std::int64_t value) {
  if (!std::in_range<int>(value)) throw Error(fmt::format("it has a rank {}", value));
  return static_cast<int>(value);
}

std::vector<GoldenTensor> get_tensors(const Source& group) {
  const std::vector<std::string> names = group.names();
  group.expect_links(names.size());
  std::vector<GoldenTensor> tensors;
  for (const std::string& name : names) {
    Source::Values read = group.values(name);
    GoldenTensor tensor{name, read.dtype, {}, std::move(read.values)};
    for (Index extent : read.extents) tensor.shape.append(extent);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<KeptShard> get_shards(const Source& group, const Golden& golden) {
  const std::vector<std::string> names = group.names();
  group.expect_links(names.size());
  std::vector<KeptShard> shards;
  for (const std::string& name : names) {
    const Source place = group.group(name);
    KeptShard shard;
    shard.tensor = place.text_attribute("tensor");
    shard.rank = to_int(place.integer_attribute("rank"));
    Source::Values read = place.values("values");
    place.expect_links(read.extents.size() + 1);
    for (std::size_t d = 0; d < read.extents.size(); ++d) {
      shard.shard.push_back(place.integers(fmt::format("dimension_{}", d)));
      if (std::ssize(shard.shard.back()) != read.extents[d]) {
        throw Error(fmt::format("the indices of {} do not fit its shape", name));
      }
    }
    shard.values = std::move(read.values);
    if (shard_name(shard) != name || shard_dtype(golden, shard) != read.dtype) {
      throw Error(fmt::format("{} is not the shard it says", name));
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

Trace get_trace(const Source& group) {
  group.expect_links(8);
  const auto ranks = group.integers("rank");
  const auto phases = group.texts("phase");
  const auto operations = group.texts("operation");
  const auto axes = group.texts("axis");
  const auto peers = group.integers("peer");
  const auto bytes = group.integers("bytes");
  const auto starts = group.values("start").values;
  const auto ends = group.values("end").values;
  const std::size_t events = ranks.size();
  for (std::size_t size : {phases.size(), operations.size(), axes.size(), peers.size(),
                           bytes.size(), starts.size(), ends.size()}) {
    if (size != events) throw Error("the columns of the trace differ in length");
  }
  Trace trace(events);
  for (std::size_t i = 0; i < events; ++i) {
    trace[i] = {to_int(ranks[i]),
                phases[i] == phase_name(Phase::kForward) ? Phase::kForward : Phase::kBackward,
                known_operation(operations[i]),
                axes[i],
                to_int(peers[i]),
                bytes[i],
                starts[i],
                ends[i]};
  }
  return trace;
}

}  // namespace

Golden parse_image(std::span<const std::byte> image) {
  silence_hdf5();
  // No filter from a plug-in: what a file names must not load code.
  check_hdf5(H5PLset_loading_state(0), "switch plug-ins off");
  expect_signature(image);
  const Handle file = open_in_memory(image);
  const Source root(file);
  expect_version(root);
  root.expect_links(kTensorGroups.size() + 5);
  Golden golden;
  golden.case_text = root.text_attribute("case");
  golden.property = root.text_attribute("property");
  golden.verdict = get_verdict(root);
  golden.contract = root.text(std::string(kContract));
  const Source environment = root.group(std::string(kEnvironment));
  environment.expect_links(0);
  for (const std::string& key : environment.attribute_names()) {
    golden.environment[key] = environment.text_attribute(key);
  }
  for (std::size_t group = 0; group < kTensorGroups.size(); ++group) {
    tensors_of(golden, group) = get_tensors(root.group(std::string(kTensorGroups[group])));
  }
  golden.shards = get_shards(root.group(std::string(kShards)), golden);
  golden.trace = get_trace(root.group(std::string(kTrace)));
  return golden;
}

Golden read_golden(const std::filesystem::path& path) {
  try {
    const std::vector<std::byte> image = file_bytes(path, kMaximumFileBytes);
    return from_bytes(in_limited_child([&] { return to_bytes(parse_image(image)); }));
  } catch (const Error& error) {
    throw Error(fmt::format("cannot read the golden '{}': {}", path.string(), error.what()));
  }
}

}  // namespace shardproof
