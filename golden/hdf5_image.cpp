#include "golden/hdf5_image.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "harness/model/require.h"

namespace shardproof {
namespace {

constexpr std::size_t kEndOfFileAt = 28;

// HDF5 wants a name even in memory, and refuses one that exists on disk: this one cannot.
constexpr const char* kNameOfNoFile = "/dev/null/golden";

// The memory of a file that HDF5 keeps in memory alone. H5Fget_file_image gives a wrong checksum
// for a file open for writing, so the bytes are taken when HDF5 frees them after closing the file.
struct Image {
  std::size_t size = 0;
  std::vector<std::byte> bytes;
};

void* allocate(std::size_t size, H5FD_file_image_op_t, void* image) {
  static_cast<Image*>(image)->size = size;
  return std::malloc(size);
}

void* reallocate(void* data, std::size_t size, H5FD_file_image_op_t, void* image) {
  static_cast<Image*>(image)->size = size;
  return std::realloc(data, size);
}

herr_t release(void* data, H5FD_file_image_op_t operation, void* image) {
  if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) {
    Image& target = *static_cast<Image*>(image);
    const auto* first = static_cast<const std::byte*>(data);
    target.bytes.assign(first, first + target.size);
  }
  std::free(data);
  return 0;
}

// Property lists are copied together with what they point to; there is one image.
void* share(void* image) { return image; }
herr_t unshare(void*) { return 0; }

Handle in_memory(std::size_t increment) {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create properties");
  check_hdf5(H5Pset_fapl_core(access, increment, false), "keep a file in memory");
  return access;
}

}  // namespace

std::vector<std::byte> built_in_memory(hid_t creation,
                                       const std::function<void(hid_t file)>& fill) {
  Image image;
  const Handle access = in_memory(std::size_t{1} << 16);
  H5FD_file_image_callbacks_t callbacks{allocate, nullptr, reallocate, release,
                                        share,    unshare, &image};
  check_hdf5(H5Pset_file_image_callbacks(access, &callbacks), "follow the file's memory");
  check_hdf5(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "set the version");
  Handle file(H5Fcreate(kNameOfNoFile, H5F_ACC_TRUNC, creation, access), H5Fclose, "create a file");
  fill(file);
  check_hdf5(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush a file");
  file.close();
  // The memory is longer than the file, which ends where its superblock (version 3) says.
  std::uint64_t end = 0;
  require(image.bytes.size() >= kEndOfFileAt + sizeof end, "an HDF5 file has a superblock");
  std::memcpy(&end, &image.bytes[kEndOfFileAt], sizeof end);
  require(end <= image.bytes.size(), "an HDF5 file is as long as its superblock says");
  image.bytes.resize(end);
  return std::move(image.bytes);
}

Handle open_in_memory(std::span<const std::byte> image) {
  const Handle access = in_memory(std::size_t{1} << 16);
  // HDF5 copies the image; it is not const there for historical reasons.
  check_hdf5(H5Pset_file_image(access, const_cast<std::byte*>(image.data()), image.size()),
             "pass the file's bytes on");
  return {H5Fopen(kNameOfNoFile, H5F_ACC_RDONLY, access), H5Fclose,
          "open it, it is damaged or truncated"};
}

}  // namespace shardproof
