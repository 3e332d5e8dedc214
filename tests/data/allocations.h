// Counts every operator new of the test program.
#pragma once

#include <cstdint>

namespace assay::test {

int64_t allocations_so_far();

}  // namespace assay::test
