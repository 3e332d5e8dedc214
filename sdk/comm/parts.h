// What each rank adds up of a sum.
#pragma once

#include <algorithm>
#include <cstdint>

namespace assay {

// Where the part of one rank of `parts` begins among n numbers of at least 2 bytes: with a line of
// memory. Parts follow each other; the first ones may be empty.
inline int64_t begin_of_part(int64_t n, int part, int parts) {
  constexpr int64_t kLine = 16;
  if (part == parts) return n;
  return std::min(n, (n + kLine - 1) / kLine * part / parts * kLine);
}

}  // namespace assay
