// Sums of what other devices have sent: each thread moves packs of 16 bytes.
#include <math.h>

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

// Elements left from `begin` on, as far as a pack of N reaches.
template <int N>
__device__ int left(int64_t n, int64_t begin) {
  return n - begin < N ? static_cast<int>(n - begin) : N;
}

template <class T>
__global__ void add_copies(const T* copies, int ranks, int64_t n, T* y, bool whole) {
  constexpr int N = kPack<T>;
  for (int64_t i = global_thread() * N; i < n; i += total_threads() * N) {
    const int count = left<N>(n, i);
    float sum[N];
    load_pack<N>(copies + i, count, whole, sum);
    for (int rank = 1; rank < ranks; ++rank) {
      float theirs[N];
      load_pack<N>(copies + rank * n + i, count, whole, theirs);
      for (int part = 0; part < N; ++part) sum[part] += theirs[part];
    }
    store_pack<N>(y + i, count, whole, sum);
  }
}

template <class X, class Y>
__global__ void convert(const X* x, Y* y, int64_t n, bool whole) {
  constexpr int N = kPack<F16>;
  for (int64_t i = global_thread() * N; i < n; i += total_threads() * N) {
    const int count = left<N>(n, i);
    float values[N];
    load_pack<N>(x + i, count, whole, values);
    store_pack<N>(y + i, count, whole, values);
  }
}

// The host writes the first word while the device works.
__global__ void spoil(volatile int32_t* words, float* data) {
  if (words[0] == 0) return;
  words[1] = 1;
  if (data != nullptr) *data = NAN;
}

template <class X, class Y>
void launch_convert(Stream stream, const X* x, Y* y, int64_t n) {
  launch(stream, blocks_for(ceil_div(n, kPack<F16>)), kThreads, convert<X, Y>, x, y, n,
         on_16_bytes(x, y));
}

}  // namespace

void add_in_order(Stream stream, Element element, const void* copies, int ranks, int64_t n,
                  void* y) {
  dispatch(element, [&](auto type) {
    using T = decltype(type);
    const bool whole = on_16_bytes(copies, y) && (ranks == 1 || n % kPack<T> == 0);
    launch(stream, blocks_for(ceil_div(n, kPack<T>)), kThreads, add_copies<T>,
           static_cast<const T*>(copies), ranks, n, static_cast<T*>(y), whole);
  });
}

void to_f16(Stream stream, const float* x, void* y, int64_t n) {
  launch_convert(stream, x, static_cast<F16*>(y), n);
}
void from_f16(Stream stream, const void* x, float* y, int64_t n) {
  launch_convert(stream, static_cast<const F16*>(x), y, n);
}

void spoil_if_ended(Stream stream, int32_t* words, float* data) {
  launch(stream, 1, 1, spoil, words, data);
}

}  // namespace assay::cuda::kernels
