// Source: one group of an untrusted HDF5 file, read through an allow-list. Only objects that are
// asked for by name are touched, only behind hard links, only of the class asked for, within
// limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden_format.h"
#include "golden/hdf5_handle.h"

namespace shardproof {

class Source {
 public:
  // The root group of `file`. The elements of all datasets read through a Source and its groups
  // together are limited.
  explicit Source(hid_t file);

  Source group(const std::string& name) const;

  // Throws Error unless the group has exactly `count` links.
  void expect_links(std::size_t count) const;

  bool has_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;
  std::int64_t integer_attribute(const std::string& name) const;
  double real_attribute(const std::string& name) const;
  std::vector<std::string> attribute_names() const;

  // The comma-separated attribute "names": valid and distinct.
  std::vector<std::string> names() const;

  std::string text(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;

  struct Values {
    DType dtype = DType::kF64;
    std::vector<Index> extents;  // none: a scalar
    std::vector<double> values;
  };
  Values values(const std::string& name) const;

 private:
  Source(Handle place, std::string path, std::shared_ptr<Index> budget);

  struct Dataset;
  Dataset open(const std::string& name, H5T_class_t kind) const;
  std::size_t take_from_budget(const std::string& name, const std::vector<hsize_t>& extents,
                               std::size_t weight) const;
  void expect_hard_link(const std::string& name) const;

  Handle place_;
  std::string path_;               // "/shards/out.rank_3", for messages
  std::shared_ptr<Index> budget_;  // elements that may still be read
};

}  // namespace shardproof
