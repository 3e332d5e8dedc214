// Counts allocations of the whole process by the library they come from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace assay::test {

// Between start and stop every allocation of every thread is noted.
void start_counting();
// By file name of the calling library, without folder and version: "libassay", "libdnnl", ...
std::map<std::string, int64_t> stop_counting();

// Makes the n-th allocation from now on (1: the next) fail, once; 0: none. What libassay asks for
// counts, and what libstdc++ and libprotobuf ask for in its place. Returns how many there were
// since the last fail_allocation.
int64_t fail_allocation(int64_t n);

// Of the allocations that count from now on, up to the next fail_allocation, those that come first
// by their path, which is all return addresses on the stack.
void follow_paths();
std::vector<int64_t> first_of_each_path();

// Blocks of the whole process that were allocated and not freed.
int64_t live_blocks();

}  // namespace assay::test
