// Copies of a box that lies in two dense tensors, at an offset in each.
#pragma once

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// Where a box of `box` elements lies in a tensor.
struct Place {
  Dims dims, begin;
};

// Trailing axes that the box fills in both tensors are folded into one run.
inline kernels::BoxCopy box_copy(const Dims& box, const Place& source, const Place& target,
                                 size_t element) {
  kernels::BoxCopy copy{};
  int64_t from = static_cast<int64_t>(element), to = from;  // bytes per step of the axis
  copy.run_bytes = from;
  copy.runs = 1;
  bool folding = true;
  for (int axis = box.rank() - 1; axis >= 0; --axis) {
    copy.source_offset += source.begin[axis] * from;
    copy.target_offset += target.begin[axis] * to;
    if (folding) {
      copy.run_bytes *= box[axis];
      folding = box[axis] == source.dims[axis] && box[axis] == target.dims[axis];
    } else {
      copy.size[copy.axes] = box[axis];
      copy.source_step[copy.axes] = from;
      copy.target_step[copy.axes] = to;
      ++copy.axes;
      copy.runs *= box[axis];
    }
    from *= source.dims[axis], to *= target.dims[axis];
  }
  return copy;
}

inline Dims zeros_like(const Dims& dims) {
  Dims zeros = dims;
  for (int axis = 0; axis < zeros.rank(); ++axis) zeros[axis] = 0;
  return zeros;
}

inline Place whole(const Dims& dims) { return {dims, zeros_like(dims)}; }

}  // namespace assay::cuda
