// The order in which Python's random.shuffle leaves a list, for data sets whose published order
// came from it.
#pragma once

#include <cstdint>
#include <vector>

namespace assay::datasets {

// The indices 0 to count - 1 after random.seed(seed); random.shuffle(list) of CPython 3. seed >= 0,
// count below 2^32.
std::vector<int64_t> python_shuffled(uint32_t seed, int64_t count);

}  // namespace assay::datasets
