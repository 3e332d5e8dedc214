#pragma once

#include <cstddef>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"

namespace assay::train {

// One tensor of a batch in host memory, dense.
struct HostTensor {
  DType dtype = DType::kF32;
  Dims dims;
  const void* data = nullptr;
};

inline constexpr size_t kMostBatchTensors = 32;

}  // namespace assay::train
