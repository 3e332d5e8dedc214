// Reads IDX files, gzipped or not; a header counts only if the rest of the file bears it out.
#include "datasets/idx.h"

#include "datasets/gzip.h"
#include "sdk/base/error.h"
#include "sdk/base/file.h"

namespace assay::datasets {
namespace {

// Far above the largest file of the family (EMNIST: 0.6 GB); stops a small file that expands for
// ever.
constexpr size_t kMaxBytes = size_t{2} << 30;
constexpr unsigned kUnsignedByte = 0x08;

uint32_t load_big_endian(const char* bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes);
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

IdxArray parse_idx(std::string bytes, int rank, std::string_view name) {
  IdxArray array;
  array.header_bytes = 4 + 4 * static_cast<size_t>(rank);
  require(bytes.size() >= array.header_bytes, Code::kFormat, name, ": ", bytes.size(),
          " bytes are too few for an IDX header of ", array.header_bytes);
  const uint32_t magic = load_big_endian(bytes.data());
  const uint32_t expected = kUnsignedByte << 8 | static_cast<uint32_t>(rank);
  require(magic == expected, Code::kFormat, name, ": its first four bytes are ", magic,
          ", expected ", expected, " (unsigned bytes in ", rank,
          " dimensions); is this the right file?");
  // Sizes have 32 bits and the product is held below the limit after each factor: no overflow.
  uint64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const uint32_t size = load_big_endian(bytes.data() + 4 + 4 * axis);
    require(size > 0, Code::kFormat, name, ": dimension ", axis, " is 0; the data set is empty");
    elements *= size;
    require(elements <= kMaxBytes, Code::kFormat, name, ": its header asks for more than ",
            kMaxBytes, " bytes");
    array.dims.push_back(size);
  }
  require(bytes.size() - array.header_bytes == elements, Code::kFormat, name, ": holds ",
          bytes.size() - array.header_bytes, " bytes of data, its header states ", elements,
          "; get a complete copy");
  array.bytes = std::move(bytes);
  return array;
}

IdxArray read_idx(const std::string& path, int rank) {
  return parse_idx(read_maybe_gzip(path, kMaxBytes), rank, path);
}

}  // namespace assay::datasets
