// Enough of CUDA's language for sdk/backend/cuda/kernels to be compiled by a C++ compiler and run
// on the processor, so that their indices, barriers and arithmetic are tested without a GPU.
//
// The threads of a block are fibers that run to their next __syncthreads() one after the other, in
// an order that changes with every launch, as does the order of blocks: results that depend on it
// differ between runs. A barrier that not all threads of the block reach ends the program with a
// message. One launch at a time.
#pragma once

#include <math.h>
#include <stdint.h>

#include <functional>

// CUDA's names. NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1;
  dim3(unsigned columns, unsigned rows = 1) : x(columns), y(rows) {}
};

inline dim3 threadIdx{0, 0}, blockIdx{0, 0}, blockDim{1, 1}, gridDim{1, 1};

void __syncthreads();
inline void __threadfence() {}
inline double __ldcg(const double* p) { return *p; }
inline unsigned atomicInc(unsigned* p, unsigned most) {
  const unsigned old = *p;
  *p = old >= most ? 0 : old + 1;
  return old;
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

struct CUstream_st;

namespace assay::cuda::emulation {

// Enqueues (runtime.h) a run of `thread` for every thread of the grid.
void run(CUstream_st* stream, dim3 grid, dim3 block, const std::function<void()>& thread);

uint16_t to_bf16(float value);
float from_bf16(uint16_t bits);
uint16_t to_f16(float value);
float from_f16(uint16_t bits);

}  // namespace assay::cuda::emulation
