// Counts allocations of the whole process by the library they come from.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay::test {

// Between start and stop every allocation of every thread is noted.
void start_counting();
// By file name of the calling library, without folder and version: "libassay", "libdnnl", ...
std::map<std::string, int64_t> stop_counting();

// Makes the n-th operator new that libassay calls from now on (1: the next) raise std::bad_alloc,
// once. 0: none. Returns how many calls libassay made since the last fail_allocation.
int64_t fail_allocation(int64_t n);

}  // namespace assay::test
