// Samples that are taken as they come: a record holds their arrays one after the other, without
// gaps, and nothing is drawn.
#pragma once

#include <vector>

#include "sdk/data/transform.h"

namespace assay::data {

// Bytes of such a record.
size_t array_record_bytes(const std::vector<ArraySpec>& arrays);

Transform make_array_transform(std::vector<ArraySpec> arrays);

}  // namespace assay::data
