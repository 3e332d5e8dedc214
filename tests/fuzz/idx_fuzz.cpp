// Any bytes as an IDX file: parsing returns a consistent array or raises an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "datasets/idx.h"
#include "sdk/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte chooses the rank the caller expects.
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto array = assay::datasets::parse_idx(bytes, 1 + data[0] % 3, "fuzz");
    int64_t elements = 1;
    for (const int64_t dim : array.dims) elements *= dim;
    if (array.header_bytes + static_cast<size_t>(elements) != bytes.size()) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
