// Counts every operator new of the test program, and makes one of them fail.
#pragma once

#include <cstdint>

namespace assay::test {

int64_t allocations_so_far();

// The allocation after the next `after` ones fails; only that one, so that its failure can be told.
void fail_allocation(int64_t after);

}  // namespace assay::test
