// Element types and axis orders of weights that come from or go to other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sdk/base/dtype.h"

namespace assay::checkpoint {

// Dense copy with the axes in another order: axis i of the result is axis order[i] of the source.
std::vector<std::byte> permute(std::span<const std::byte> source, size_t element_bytes,
                               std::span<const int64_t> dims, std::span<const int> order);

// Converts between floating types, rounding once to nearest even; equal types are copied. Element
// counts must agree.
void cast_elements(std::span<const std::byte> source, DType from, std::span<std::byte> target,
                   DType to);

// One element as double, of any type.
double element_value(std::span<const std::byte> data, DType dtype, size_t index);

}  // namespace assay::checkpoint
