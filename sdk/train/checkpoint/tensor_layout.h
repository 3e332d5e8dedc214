// Arithmetic on sizes that come from files: nothing here trusts, allocates or overflows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sdk/base/dtype.h"

namespace assay::checkpoint {

// Product of `dims` times the element size; nothing for a negative size, an unknown type, or sizes
// whose product, zeros left out, does not fit into 63 bits: no order of them overflows.
std::optional<uint64_t> tensor_bytes(std::span<const int64_t> dims, DType dtype);

// True when [offset, offset + bytes) lies in [begin, end).
constexpr bool inside(uint64_t offset, uint64_t bytes, uint64_t begin, uint64_t end) {
  return offset >= begin && offset <= end && bytes <= end - offset;
}

// A name that is safe to print and to compare: 1 to 1024 bytes of UTF-8 without control characters.
bool is_tensor_name(std::string_view name);
// Relative, made of [A-Za-z0-9._/-], without "." or ".." components: safe for any tool that
// extracts it.
bool is_entry_name(std::string_view name);

}  // namespace assay::checkpoint
