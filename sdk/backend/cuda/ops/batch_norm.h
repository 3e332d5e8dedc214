// What the forms of batch normalisation have in common.
#pragma once

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// gamma, beta, mean, var are inputs 1 to 4 of the gradients and of the inference form.
inline kernels::NormInputs inputs_of(const Binding& b, float epsilon) {
  return {b.x<float>(1), b.x<float>(2), b.x<float>(3), b.x<float>(4), epsilon};
}

// Scratch: sums of blocks, and of each channel the affine map and the numbers of dx (kernels.h).
struct NormScratch {
  double* partial;
  kernels::Affine affine;
  float *b, *c;
  size_t bytes;
};
inline NormScratch norm_scratch(size_t sums_bytes, int64_t channels, void* base) {
  ScratchLayout scratch(base);
  NormScratch s{};
  s.partial = static_cast<double*>(scratch.take_bytes(sums_bytes));
  for (float** table : {&s.affine.scale, &s.affine.shift, &s.b, &s.c})
    *table = scratch.take<float>(static_cast<size_t>(channels));
  s.bytes = scratch.bytes();
  return s;
}

}  // namespace assay::cuda
