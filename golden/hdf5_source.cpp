#include "golden/hdf5_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "golden/hdf5_types.h"
#include "harness/model/require.h"

namespace shardproof {
namespace {

using namespace golden_format;  // NOLINT: the layout's own words

// An attribute of one value, opened and checked.
struct Attribute {
  Handle attribute;
  Handle type;
};

// A text of fixed length up to `longest`, or a number of the one type of its class that the writer
// uses. Float datasets may have others: values() compares with the dtype.
bool is_known(hid_t type, H5T_class_t kind, std::size_t longest) {
  if (H5Tget_class(type) != kind) return false;
  if (kind == H5T_INTEGER) return H5Tequal(type, H5T_STD_I64LE) > 0;
  if (kind == H5T_FLOAT) return H5Tget_size(type) <= sizeof(double);
  return H5Tis_variable_str(type) == 0 && H5Tget_size(type) > 0 && H5Tget_size(type) <= longest;
}

Attribute open_attribute(hid_t place, const std::string& path, const std::string& name,
                         H5T_class_t kind) {
  if (check_hdf5(H5Aexists(place, name.c_str()), "look for an attribute") == 0) {
    throw Error(fmt::format("{} has no attribute '{}'", path, name));
  }
  Handle attribute(H5Aopen(place, name.c_str(), H5P_DEFAULT), H5Aclose, "open an attribute");
  Handle type(H5Aget_type(attribute), H5Tclose, "get a type");
  const Handle space(H5Aget_space(attribute), H5Sclose, "get a dataspace");
  const bool known = is_known(type, kind, kMaximumAttributeBytes + 1) &&
                     (kind != H5T_FLOAT || H5Tequal(type, H5T_IEEE_F64LE) > 0);
  if (!known || H5Sget_simple_extent_type(space) != H5S_SCALAR) {
    throw Error(fmt::format("the attribute '{}' of {} is not what a golden has", name, path));
  }
  return {std::move(attribute), std::move(type)};
}

std::string unpadded(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// Exactly the filters that the writer uses: others, some from plug-ins, never run.
bool has_known_filters(hid_t how) {
  constexpr std::array<H5Z_filter_t, 3> kFilters{H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE,
                                                 H5Z_FILTER_FLETCHER32};
  if (H5Pget_nfilters(how) != static_cast<int>(kFilters.size())) return false;
  for (unsigned i = 0; i < kFilters.size(); ++i) {
    unsigned flags = 0;
    std::size_t parameters = 0;
    unsigned configuration = 0;
    if (H5Pget_filter2(how, i, &flags, &parameters, nullptr, 0, nullptr, &configuration) !=
        kFilters[i]) {
      return false;
    }
  }
  return true;
}

// Chunked and filtered as the writer does it, no chunk larger than the dataset.
bool has_known_storage(hid_t how, const std::vector<hsize_t>& extents) {
  if (H5Pget_external_count(how) != 0) return false;
  if (std::ranges::find(extents, hsize_t{0}) != extents.end()) {
    return H5Pget_layout(how) == H5D_CONTIGUOUS;
  }
  if (H5Pget_layout(how) != H5D_CHUNKED || !has_known_filters(how)) return false;
  std::vector<hsize_t> chunk(extents.size());
  if (H5Pget_chunk(how, static_cast<int>(chunk.size()), chunk.data()) !=
      static_cast<int>(chunk.size())) {
    return false;
  }
  return std::ranges::equal(chunk, extents, std::ranges::less_equal{});
}

}  // namespace

struct Source::Dataset {
  Handle dataset;
  Handle type;
  std::vector<hsize_t> extents;
  std::size_t elements = 1;

  void read(hid_t memory_type, void* target) const {
    if (elements == 0) return;
    check_hdf5(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, target),
               "read a dataset");
  }
};

Source::Source(hid_t file)
    : Source(Handle(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose, "open the root group"), "",
             std::make_shared<Index>(kMaximumElements)) {}

Source::Source(Handle place, std::string path, std::shared_ptr<Index> budget)
    : place_(std::move(place)), path_(std::move(path)), budget_(std::move(budget)) {}

// An external or soft link could lead to another file or in a circle.
void Source::expect_hard_link(const std::string& name) const {
  if (check_hdf5(H5Lexists(place_, name.c_str(), H5P_DEFAULT), "look for a link") == 0) {
    throw Error(fmt::format("{}/{} is missing", path_, name));
  }
  H5L_info_t link{};
  check_hdf5(H5Lget_info(place_, name.c_str(), &link, H5P_DEFAULT), "inspect a link");
  if (link.type != H5L_TYPE_HARD) {
    throw Error(fmt::format("{}/{} is a link to elsewhere", path_, name));
  }
}

Source Source::group(const std::string& name) const {
  expect_hard_link(name);
  return {Handle(H5Gopen2(place_, name.c_str(), H5P_DEFAULT), H5Gclose, "open a group"),
          path_ + "/" + name, budget_};
}

void Source::expect_links(std::size_t count) const {
  H5G_info_t info{};
  check_hdf5(H5Gget_info(place_, &info), "inspect a group");
  if (info.nlinks != count) {
    throw Error(
        fmt::format("{}/ has {} objects, a golden has {} there", path_, info.nlinks, count));
  }
}

bool Source::has_attribute(const std::string& name) const {
  return check_hdf5(H5Aexists(place_, name.c_str()), "look for an attribute") > 0;
}

std::string Source::text_attribute(const std::string& name) const {
  const Attribute opened = open_attribute(place_, path_ + "/", name, H5T_STRING);
  std::string text(H5Tget_size(opened.type), '\0');
  check_hdf5(H5Aread(opened.attribute, opened.type, text.data()), "read an attribute");
  return unpadded(std::move(text));
}

std::int64_t Source::integer_attribute(const std::string& name) const {
  const Attribute opened = open_attribute(place_, path_ + "/", name, H5T_INTEGER);
  std::int64_t value = 0;
  check_hdf5(H5Aread(opened.attribute, H5T_NATIVE_INT64, &value), "read an attribute");
  return value;
}

double Source::real_attribute(const std::string& name) const {
  const Attribute opened = open_attribute(place_, path_ + "/", name, H5T_FLOAT);
  double value = 0;
  check_hdf5(H5Aread(opened.attribute, H5T_NATIVE_DOUBLE, &value), "read an attribute");
  return value;
}

std::vector<std::string> Source::attribute_names() const {
  H5O_info_t info{};
  check_hdf5(H5Oget_info2(place_, &info, H5O_INFO_NUM_ATTRS), "count attributes");
  if (info.num_attrs > kMaximumObjects) throw Error(path_ + "/ has too many attributes");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    std::array<char, kMaximumNameBytes + 2> name{};
    check_hdf5(H5Aget_name_by_idx(place_, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(),
                                  name.size(), H5P_DEFAULT),
               "get an attribute's name");
    names.emplace_back(name.data());
    if (!is_name(names.back())) throw Error(path_ + "/ has an attribute with an unusable name");
  }
  return names;
}

std::vector<std::string> Source::names() const {
  const std::string list = text_attribute("names");
  std::vector<std::string> names;
  for (std::size_t first = 0; !list.empty() && first <= list.size();) {
    const std::size_t end = std::min(list.find(',', first), list.size());
    names.push_back(list.substr(first, end - first));
    first = end + 1;
  }
  const std::set<std::string> distinct(names.begin(), names.end());
  if (names.size() > kMaximumObjects || distinct.size() != names.size() ||
      !std::ranges::all_of(names, is_name)) {
    throw Error(path_ + "/ has an unusable list of names");
  }
  return names;
}

Source::Dataset Source::open(const std::string& name, H5T_class_t kind) const {
  expect_hard_link(name);
  Handle dataset(H5Dopen2(place_, name.c_str(), H5P_DEFAULT), H5Dclose, "open a dataset");
  Handle type(H5Dget_type(dataset), H5Tclose, "get a type");
  const Handle space(H5Dget_space(dataset), H5Sclose, "get a dataspace");
  const Handle how(H5Dget_create_plist(dataset), H5Pclose, "get properties");
  const std::size_t type_bytes = H5Tget_size(type);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (!is_known(type, kind, kMaximumTextBytes) || rank < 1 || rank > kMaximumRank) {
    throw Error(fmt::format("{}/{} is not what a golden has", path_, name));
  }
  Dataset opened{std::move(dataset), std::move(type),
                 std::vector<hsize_t>(static_cast<std::size_t>(rank)), 1};
  check_hdf5(H5Sget_simple_extent_dims(space, opened.extents.data(), nullptr), "get extents");
  if (!has_known_storage(how, opened.extents)) {
    throw Error(fmt::format("{}/{} is not stored as a golden is", path_, name));
  }
  opened.elements = take_from_budget(name, opened.extents, kind == H5T_STRING ? type_bytes : 1);
  return opened;
}

// The number of elements, each of which counts `weight`.
std::size_t Source::take_from_budget(const std::string& name, const std::vector<hsize_t>& extents,
                                     std::size_t weight) const {
  const std::vector<Index> checked(extents.begin(), extents.end());
  const Index elements = checked_elements(checked);
  if (elements < 0 || elements > *budget_ / static_cast<Index>(weight)) {
    throw Error(fmt::format("{}/{} has more elements than a golden may have", path_, name));
  }
  *budget_ -= elements * static_cast<Index>(weight);
  return static_cast<std::size_t>(elements);
}

std::string Source::text(const std::string& name) const {
  std::vector<std::string> all = texts(name);
  if (all.size() != 1) throw Error(fmt::format("{}/{} is not one text", path_, name));
  return std::move(all.front());
}

std::vector<std::string> Source::texts(const std::string& name) const {
  const Dataset dataset = open(name, H5T_STRING);
  const std::size_t bytes = H5Tget_size(dataset.type);
  std::string padded(bytes * dataset.elements, '\0');
  dataset.read(dataset.type, padded.data());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < dataset.elements; ++i) {
    texts.push_back(unpadded(padded.substr(i * bytes, bytes)));
  }
  return texts;
}

std::vector<std::int64_t> Source::integers(const std::string& name) const {
  const Dataset dataset = open(name, H5T_INTEGER);
  std::vector<std::int64_t> values(dataset.elements);
  dataset.read(H5T_NATIVE_INT64, values.data());
  return values;
}

Source::Values Source::values(const std::string& name) const {
  const Dataset dataset = open(name, H5T_FLOAT);
  const Source attributes(
      Handle(H5Dopen2(place_, name.c_str(), H5P_DEFAULT), H5Dclose, "open a dataset"),
      path_ + "/" + name, budget_);
  const std::optional<DType> dtype = dtype_from(attributes.text_attribute("dtype"));
  const std::int64_t rank = attributes.integer_attribute("rank");
  const bool scalar = rank == 0 && dataset.extents == std::vector<hsize_t>{1};
  if (!dtype || check_hdf5(H5Tequal(dataset.type, float_type(*dtype)), "compare types") == 0 ||
      !(scalar || rank == std::ssize(dataset.extents)) || rank > Shape::kMaximumRank) {
    throw Error(fmt::format("{}/{} does not have the type and rank it says", path_, name));
  }
  Values result{*dtype, {}, std::vector<double>(dataset.elements)};
  if (!scalar) result.extents.assign(dataset.extents.begin(), dataset.extents.end());
  std::vector<std::byte> words(dataset.elements * storage_bytes(*dtype));
  dataset.read(dataset.type, words.data());
  for (std::size_t i = 0; i < dataset.elements; ++i) {
    result.values[i] = load(*dtype, words.data(), static_cast<std::ptrdiff_t>(i));
  }
  return result;
}

}  // namespace shardproof
