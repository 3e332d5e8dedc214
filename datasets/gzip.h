// Published files that may be packed.
#pragma once

#include <cstdint>
#include <string>

namespace assay::datasets {

// The bytes of a file, decompressed if it is gzip. kFormat for damaged compression and for more
// than `max_bytes`.
std::string read_maybe_gzip(const std::string& path, uint64_t max_bytes);

}  // namespace assay::datasets
