// Philox streams of the data layer. Frozen: other values would change published runs.
#pragma once

#include <cstdint>

namespace assay::data {

// "datashuf", a = epoch.
inline constexpr uint64_t kShuffleStream = 0x64617461'73687566;
// "datastrm", a = rank.
inline constexpr uint64_t kStreamStream = 0x64617461'7374726d;
// "dataaugm", a = sample, b = epoch.
inline constexpr uint64_t kAugmentStream = 0x64617461'6175676d;

// "datapair", a = part of the corpus, b = split.
inline constexpr uint64_t kPairsStream = 0x64617461'70616972;

}  // namespace assay::data
