// System calls of libassay that fail on request.
#pragma once

#include <cstdint>

namespace assay::test {

// Instead of an error number: a read or write transfers one byte less than asked. Other calls
// succeed.
inline constexpr int kShort = -1;

// Makes the n-th system call from now on (1: the next) fail with this error, once; 0: none. Those
// of libassay's files count, and the threads that it or libstdc++ in its place starts. Returns how
// many there were since the last fail_system_call.
int64_t fail_system_call(int64_t n, int error = 0);

// Which one failed, "fsync"; empty if none did.
const char* failed_system_call();

}  // namespace assay::test
