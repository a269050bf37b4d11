// Writing a golden's objects. Nothing that depends on time or place enters the file: equal goldens
// are byte-identical files.
#include <fmt/format.h>

#include <algorithm>

#include "golden/golden_file.h"
#include "golden/golden_format.h"
#include "golden/hdf5_image.h"
#include "golden/hdf5_types.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

using namespace golden_format;  // NOLINT: the layout's own words

constexpr hsize_t kChunkBytes = hsize_t{1} << 20;

Handle properties(hid_t kind) { return {H5Pcreate(kind), H5Pclose, "create properties"}; }

// Object times would make every file different; attributes stay in the header, in a plain list.
Handle object_properties(hid_t kind) {
  Handle result = properties(kind);
  check_hdf5(H5Pset_obj_track_times(result, false), "switch object times off");
  check_hdf5(H5Pset_attr_phase_change(result, kMaximumObjects, 0), "keep attributes in a list");
  return result;
}

void put_attribute(hid_t place, const std::string& name, hid_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "create a dataspace");
  const Handle attribute(H5Acreate2(place, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, "create an attribute");
  check_hdf5(H5Awrite(attribute, type, value), "write an attribute");
}

// An empty text is one NUL: HDF5 has no type of zero bytes. c_str() ends with that NUL.
void put_text_attribute(hid_t place, const std::string& name, const std::string& text) {
  put_attribute(place, name, text_type(text.size()), text.c_str());
}

void put_integer_attribute(hid_t place, const std::string& name, std::int64_t value) {
  put_attribute(place, name, H5T_STD_I64LE, &value);
}

void put_real_attribute(hid_t place, const std::string& name, double value) {
  put_attribute(place, name, H5T_IEEE_F64LE, &value);
}

Handle make_group(hid_t place, const std::string& name) {
  return {H5Gcreate2(place, name.c_str(), H5P_DEFAULT, object_properties(H5P_GROUP_CREATE),
                     H5P_DEFAULT),
          H5Gclose, "create a group"};
}

// Chunks of at most about a megabyte, cut along the longest dimension.
std::vector<hsize_t> chunk_extents(std::vector<hsize_t> extents, std::size_t element_bytes) {
  const auto bytes = [&] {
    hsize_t result = element_bytes;
    for (hsize_t extent : extents) result *= extent;
    return result;
  };
  while (bytes() > kChunkBytes && std::ranges::max(extents) > 1) {
    hsize_t& longest = *std::ranges::max_element(extents);
    longest = (longest + 1) / 2;
  }
  return extents;
}

// A dataset with shuffle, deflate and a checksum. `extents` empty: a scalar, kept as one element,
// because only chunked data can be checksummed. Without elements there is nothing to protect.
Handle put_dataset(hid_t place, const std::string& name, hid_t type, std::vector<hsize_t> extents,
                   const void* data) {
  if (extents.empty()) extents = {1};
  const bool empty = std::ranges::find(extents, hsize_t{0}) != extents.end();
  const Handle space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                     H5Sclose, "create a dataspace");
  const Handle how = object_properties(H5P_DATASET_CREATE);
  if (!empty) {
    const auto chunk = chunk_extents(
        extents, check_hdf5(static_cast<std::int64_t>(H5Tget_size(type)), "get a size"));
    check_hdf5(H5Pset_chunk(how, static_cast<int>(chunk.size()), chunk.data()), "set chunks");
    check_hdf5(H5Pset_shuffle(how), "set shuffle");
    check_hdf5(H5Pset_deflate(how, 1), "set deflate");
    check_hdf5(H5Pset_fletcher32(how), "set the checksum");
  }
  Handle dataset(H5Dcreate2(place, name.c_str(), type, space, H5P_DEFAULT, how, H5P_DEFAULT),
                 H5Dclose, "create a dataset");
  if (!empty) {
    check_hdf5(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write a dataset");
  }
  return dataset;
}

void put_text(hid_t place, const std::string& name, const std::string& text) {
  put_dataset(place, name, text_type(text.size()), {}, text.c_str());
}

void put_integers(hid_t place, const std::string& name, const std::vector<std::int64_t>& values) {
  put_dataset(place, name, H5T_STD_I64LE, {values.size()}, values.data());
}

// Every text padded to the longest.
void put_texts(hid_t place, const std::string& name, const std::vector<std::string_view>& texts) {
  std::size_t bytes = 1;
  for (std::string_view text : texts) bytes = std::max(bytes, text.size());
  std::string padded(bytes * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].copy(&padded[i * bytes], bytes);
  put_dataset(place, name, text_type(bytes), {texts.size()}, padded.data());
}

// Values in the storage of `dtype`, bit for bit. HDF5 would round 16-bit ties away from zero, so it
// is handed the words themselves.
void put_values(hid_t place, const std::string& name, DType dtype, std::vector<hsize_t> extents,
                const std::vector<double>& values) {
  const DType stored = stored_as(dtype);
  std::vector<std::byte> words(values.size() * storage_bytes(stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(stored, words.data(), static_cast<std::ptrdiff_t>(i), values[i]);
  }
  const auto rank = static_cast<std::int64_t>(extents.size());
  const Handle dataset =
      put_dataset(place, name, float_type(stored), std::move(extents), words.data());
  put_text_attribute(dataset, "dtype", std::string(format(dtype).name));
  put_integer_attribute(dataset, "rank", rank);
}

void put_tensors(hid_t file, const std::string& group_name,
                 const std::vector<GoldenTensor>& tensors) {
  const Handle group = make_group(file, group_name);
  std::vector<std::string> names;
  for (const GoldenTensor& tensor : tensors) {
    names.push_back(tensor.name);
    std::vector<hsize_t> extents;
    for (int d = 0; d < tensor.shape.rank(); ++d) {
      extents.push_back(static_cast<hsize_t>(tensor.shape[d]));
    }
    put_values(group, tensor.name, tensor.dtype, std::move(extents), tensor.values);
  }
  put_text_attribute(group, "names", joined(names));
}

void put_shards(hid_t file, const Golden& golden) {
  const Handle group = make_group(file, std::string(kShards));
  std::vector<std::string> names;
  for (const KeptShard& shard : golden.shards) {
    names.push_back(shard_name(shard));
    const Handle place = make_group(group, names.back());
    put_text_attribute(place, "tensor", shard.tensor);
    put_integer_attribute(place, "rank", shard.rank);
    std::vector<hsize_t> extents;
    for (const auto& indices : shard.shard) extents.push_back(indices.size());
    put_values(place, "values", shard_dtype(golden, shard), extents, shard.values);
    for (std::size_t d = 0; d < shard.shard.size(); ++d) {
      put_integers(place, fmt::format("dimension_{}", d), shard.shard[d]);
    }
  }
  put_text_attribute(group, "names", joined(names));
}

void put_trace(hid_t file, const Trace& trace) {
  const Handle group = make_group(file, std::string(kTrace));
  const auto column = [&](const char* name, auto field) {
    std::vector<std::int64_t> values;
    for (const Event& event : trace) values.push_back(static_cast<std::int64_t>(field(event)));
    put_integers(group, name, values);
  };
  const auto text_column = [&](const char* name, auto field) {
    std::vector<std::string_view> texts;
    for (const Event& event : trace) texts.push_back(field(event));
    put_texts(group, name, texts);
  };
  const auto time_column = [&](const char* name, auto field) {
    std::vector<double> values;
    for (const Event& event : trace) values.push_back(field(event));
    put_values(group, name, DType::kF64, {values.size()}, values);
  };
  column("rank", [](const Event& event) { return event.rank; });
  text_column("phase", [](const Event& event) { return phase_name(event.phase); });
  text_column("operation", [](const Event& event) { return event.operation; });
  text_column("axis", [](const Event& event) { return std::string_view(event.axis); });
  column("peer", [](const Event& event) { return event.peer; });
  column("bytes", [](const Event& event) { return event.bytes; });
  time_column("start", [](const Event& event) { return event.start; });
  time_column("end", [](const Event& event) { return event.end; });
}

void put_verdict(hid_t file, const Verdict& verdict) {
  put_text_attribute(file, "verdict", std::string(name(verdict.kind)));
  put_text_attribute(file, "tensor", verdict.tensor);
  put_text_attribute(file, "symptom", verdict.symptom);
  put_integer_attribute(file, "element", verdict.element);
  put_real_attribute(file, "got", verdict.got);
  put_real_attribute(file, "want", verdict.want);
  put_real_attribute(file, "bound", verdict.bound);
  put_text(file, std::string(kMessage), verdict.message);
}

void put_golden(hid_t file, const Golden& golden) {
  put_text_attribute(file, "format", std::string(kFormat));
  put_integer_attribute(file, "format_version", golden.version);
  // For people: the two halves of the case. The reader takes the case.
  const std::size_t bar = golden.case_text.find(" | ");
  put_text_attribute(file, "case", golden.case_text);
  put_text_attribute(file, "problem", golden.case_text.substr(0, bar));
  put_text_attribute(file, "placement",
                     bar == std::string::npos ? "" : golden.case_text.substr(bar + 3));
  put_text_attribute(file, "property", golden.property);
  put_verdict(file, golden.verdict);
  put_text(file, std::string(kContract), golden.contract);
  for (std::size_t group = 0; group < kTensorGroups.size(); ++group) {
    put_tensors(file, std::string(kTensorGroups[group]), tensors_of(golden, group));
  }
  put_shards(file, golden);
  put_trace(file, golden.trace);
  const Handle environment = make_group(file, std::string(kEnvironment));
  for (const auto& [key, value] : golden.environment) put_text_attribute(environment, key, value);
}

}  // namespace

std::vector<std::byte> golden_image(const Golden& golden) {
  if (std::string broken = broken_rule(golden); !broken.empty()) {
    throw Error("cannot store the golden: " + broken);
  }
  silence_hdf5();
  const Handle creation = object_properties(H5P_FILE_CREATE);
  return built_in_memory(creation, [&](hid_t file) { put_golden(file, golden); });
}

void write_golden(const std::filesystem::path& path, const Golden& golden) {
  place_file(path, golden_image(golden));
}

}  // namespace shardproof
