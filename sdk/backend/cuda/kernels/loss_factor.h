// What the gradient of a loss is multiplied by, in a kernel.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

__device__ inline float value_of(const LossFactor& f) {
  const float scale = *f.dloss * f.constant;
  if (f.count == nullptr) return scale;
  const double counted = static_cast<double>(*f.count) + static_cast<double>(f.epsilon);
  return scale * static_cast<float>(1.0 / counted);
}

}  // namespace assay::cuda::kernels
