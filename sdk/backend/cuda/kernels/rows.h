// Rows of a matrix shared out to threads: one belongs to 1, 32 or 256 of them, as many as keep
// busy.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

// How a row is shared. All threads of a block take part in every reduction, also those without a
// row.
struct Rows {
  int64_t rows, size;  // of a row: its elements
  int width;           // threads of a row: a power of two that divides the block

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % width; }
  __device__ int64_t row() const {
    return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / width;
  }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Plus {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

#if defined(__CUDACC__)
// As row_reduce, in the same order, of the threads of a warp: they need not wait for the block.
template <class V, class Combine>
__device__ inline V warp_reduce(V value, Combine combine) {
  constexpr int kWords = sizeof(V) / sizeof(uint32_t);
  uint32_t words[kWords];
  for (int half = 16; half > 0; half /= 2) {
    memcpy(words, &value, sizeof value);
    for (uint32_t& word : words) word = __shfl_down_sync(0xffffffffu, word, half);
    V other;
    memcpy(&other, words, sizeof other);
    value = combine(value, other);  // of the lower half; nobody looks at the others'
  }
  memcpy(words, &value, sizeof value);
  for (uint32_t& word : words) word = __shfl_sync(0xffffffffu, word, 0);
  memcpy(&value, words, sizeof value);
  return value;
}
#endif

// Over the threads of a row, in the order of a binary tree; each of them gets the result.
template <class V, class Combine>
__device__ inline V row_reduce(const Rows& r, V value, V* shared, Combine combine) {
  if (r.width == 1) return value;  // the same for the whole block
#if defined(__CUDACC__)
  if (r.width == 32) return warp_reduce(value, combine);
#endif
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = value;
  __syncthreads();
  for (int half = r.width / 2; half > 0; half /= 2) {
    if (r.lane() < half) shared[t] = combine(shared[t], shared[t + half]);
    __syncthreads();
  }
  const V result = shared[t - r.lane()];
  __syncthreads();
  return result;
}

inline Rows rows_of(int64_t rows, int64_t size) {
  return {rows, size, size <= 16 ? 1 : size <= 1024 ? 32 : 256};
}
inline unsigned blocks_of(const Rows& r) {
  return static_cast<unsigned>(ceil_div(r.rows * r.width, kThreads));
}

}  // namespace assay::cuda::kernels
