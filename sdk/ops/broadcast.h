// Dims that are aligned at the last axis, where an axis of size 1, or a missing one, is repeated.
#pragma once

#include "sdk/base/dims.h"
#include "sdk/graph/layout.h"

namespace assay {

// The size of axis `axis` of `dims`, as one of `rank` axes.
inline int64_t aligned_size(const Dims& dims, int rank, int axis) {
  const int own = axis - (rank - dims.rank());
  return own < 0 ? 1 : dims[own];
}

// Where the elements of a tensor of dims `part` lie when it is repeated to `whole`: at a distance
// of 0 along the axes that it repeats.
inline Layout repeated_layout(const Layout& layout, const Dims& part, const Dims& whole) {
  Layout repeated{layout.offset, whole, std::nullopt};
  const int missing = whole.rank() - part.rank();
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const bool repeats = aligned_size(part, whole.rank(), axis) == 1;
    repeated.strides[axis] = repeats ? 0 : layout.strides[axis - missing];
  }
  return repeated;
}

// How a tensor of dims `part` repeats in one of dims `whole`: [before][repeats][after] elements of
// the whole are [before][after] of the part. Axes of other repetitions between them are none.
struct Repetition {
  int64_t before = 1, repeats = 1, after = 1;
  bool is_one_block = true;  // false: kept axes stand between repeated ones; the sizes say nothing
};

inline Repetition repetition_of(const Dims& part, const Dims& whole) {
  Repetition r;
  bool closed = false;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const int64_t size = whole[axis];
    if (size == 1) continue;
    if (aligned_size(part, whole.rank(), axis) == 1) {
      if (closed) r.is_one_block = false;
      r.repeats *= size;
    } else if (r.repeats > 1) {
      closed = true;
      r.after *= size;
    } else {
      r.before *= size;
    }
  }
  return r;
}

}  // namespace assay
