// The IDX format of the MNIST family: a big-endian header (type, number of dimensions, sizes), then
// the elements, outermost dimension first. Only unsigned bytes appear in these data sets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::datasets {

struct IdxArray {
  std::vector<int64_t> dims;
  std::string bytes;  // the whole file, uncompressed; header included
  size_t header_bytes = 0;

  const uint8_t* data() const {
    return reinterpret_cast<const uint8_t*>(bytes.data()) + header_bytes;
  }
};

// Parses the bytes of a file. `name` is for messages. kFormat unless the file is unsigned bytes in
// `rank` dimensions, none of them 0, and exactly as long as its header says.
IdxArray parse_idx(std::string bytes, int rank, std::string_view name);

// Reads a file, plain or compressed with gzip. kFormat for damaged compression too.
IdxArray read_idx(const std::string& path, int rank);

}  // namespace assay::datasets
