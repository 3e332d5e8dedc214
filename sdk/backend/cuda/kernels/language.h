// What kernel files are written in: element types, 16-byte accesses, launches.
//
// The same files are compiled by nvcc for devices and, with the headers of tests/gpu/emulation, by
// a C++ compiler for tests: there the threads of a block are fibers in an arbitrary order. So
// kernels use only what stands here and in CUDA's core language (threadIdx ..., __shared__ arrays
// of fixed size, __syncthreads; __threadfence, atomicInc and __ldcg between blocks), and no warp
// intrinsics but in rows.h, which adds up in the order in which the emulation does.
//
// Kernels are compiled without contraction of a*b + c (-fmad=false); fused operations are written
// as fmaf where meant, so that expressions that must agree bit for bit do.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "cuda_emulation.h"
#endif

#include "sdk/backend/cuda/kernels/kernels.h"

// Before a loop: one copy of its body, where the compiler would make as many as there are turns; or
// as many, where it would not, so that arrays indexed by the turn stay in registers.
#if defined(__CUDACC__)
#define ASSAY_ROLLED _Pragma("unroll 1")
#define ASSAY_UNROLLED _Pragma("unroll")
#else
#define ASSAY_ROLLED
#define ASSAY_UNROLLED
#endif

namespace assay::cuda {

// Raises the error of the launch before, if any; defined in check.cpp.
void check_launch();

namespace kernels {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

// ---- Elements as f32 --------------------------------------------------------------------------

__device__ inline float load(float x) { return x; }
__device__ inline float load(uint8_t x) { return static_cast<float>(x); }
__device__ inline void store(float& y, float value) { y = value; }
#if defined(__CUDACC__)
__device__ inline float load(Bf16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ inline float load(F16 x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
__device__ inline void store(Bf16& y, float value) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(value));
}
__device__ inline void store(F16& y, float value) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(value));
}
#else
inline float load(Bf16 x) { return emulation::from_bf16(x.bits); }
inline float load(F16 x) { return emulation::from_f16(x.bits); }
inline void store(Bf16& y, float value) { y.bits = emulation::to_bf16(value); }
inline void store(F16& y, float value) { y.bits = emulation::to_f16(value); }
#endif

// What is read again where the value is stored.
template <class T>
__device__ inline float as_stored(float value) {
  T stored;
  store(stored, value);
  return load(stored);
}

// The largest f32 that is stored as zero: 0, or half of the smallest number of the type.
template <class T>
__device__ inline float largest_zero() {
  return 0.0f;
}
template <>
__device__ inline float largest_zero<Bf16>() {
  return 0x1p-134f;
}
template <>
__device__ inline float largest_zero<F16>() {
  return 0x1p-25f;
}

// ---- 16 bytes at a time -----------------------------------------------------------------------

template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// Reads p[0, n), n <= N, as f32; `whole` says that p lies on a 16-byte boundary, so that a full
// pack is one access (of two, for 8 elements of f32). Elements beyond n are 0.
template <int N, class T>
__device__ inline void load_pack(const T* p, int n, bool whole, float (&v)[N]) {
  if constexpr (N * sizeof(T) >= 16) {
    if (whole && n >= N) {
      T raw[N];
      for (int part = 0; part < static_cast<int>(N * sizeof(T) / 16); ++part) {
        const uint4 bits = reinterpret_cast<const uint4*>(p)[part];
        memcpy(reinterpret_cast<char*>(raw) + 16 * part, &bits, 16);
      }
      for (int i = 0; i < N; ++i) v[i] = load(raw[i]);
      return;
    }
  }
  for (int i = 0; i < N; ++i) v[i] = i < n ? load(p[i]) : 0.0f;
}

template <int N, class T>
__device__ inline void store_pack(T* p, int n, bool whole, const float (&v)[N]) {
  if constexpr (N * sizeof(T) >= 16) {
    if (whole && n >= N) {
      T raw[N];
      for (int i = 0; i < N; ++i) store(raw[i], v[i]);
      for (int part = 0; part < static_cast<int>(N * sizeof(T) / 16); ++part) {
        uint4 bits;
        memcpy(&bits, reinterpret_cast<const char*>(raw) + 16 * part, 16);
        reinterpret_cast<uint4*>(p)[part] = bits;
      }
      return;
    }
  }
  for (int i = 0; i < N; ++i) {
    if (i < n) store(p[i], v[i]);
  }
}

// A pack as it lies in memory: loops read several ahead, and convert each where they use it.
template <class T>
struct Pack {
  T element[kPack<T>];
};

// p[0, n) as read_pack finds it: whole packs lie on 16-byte boundaries, n is kPack<T> then.
// Elements beyond n are 0.
template <bool kWhole, class T>
__device__ inline Pack<T> read_pack(const T* p, int n) {
  Pack<T> pack{};
  if constexpr (kWhole) {
    const uint4 bits = *reinterpret_cast<const uint4*>(p);
    memcpy(&pack, &bits, sizeof pack);
  } else {
    for (int i = 0; i < kPack<T>; ++i) {
      if (i < n) pack.element[i] = p[i];
    }
  }
  return pack;
}

template <class T>
__device__ inline void unpack(const Pack<T>& pack, float (&v)[kPack<T>]) {
  for (int i = 0; i < kPack<T>; ++i) v[i] = load(pack.element[i]);
}

// ---- Indices and sums -------------------------------------------------------------------------

__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t total_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Sum over the threads of a block (a power of two of them, in one row), in the order of a binary
// tree; every thread gets it. `shared` has room for one value per thread.
template <class V>
__device__ inline V block_sum(V value, V* shared) {
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = value;
  __syncthreads();
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  const V sum = shared[0];
  __syncthreads();
  return sum;
}

// ---- On the host ------------------------------------------------------------------------------

constexpr int kThreads = 256;  // of most blocks

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks for `n` threads' worth of work; kernels stride over what is left beyond the limit.
inline unsigned blocks_for(int64_t n) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t blocks = ceil_div(n, kThreads);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
}

inline bool on_16_bytes(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
template <class... P>
bool on_16_bytes(const void* first, const P*... rest) {
  return on_16_bytes(first) && on_16_bytes(static_cast<const void*>(rest)...);
}

template <class... P, class... A>
void launch(Stream stream, dim3 grid, dim3 block, void (*kernel)(P...), A... arguments) {
#if defined(__CUDACC__)
  kernel<<<grid, block, 0, stream>>>(static_cast<P>(arguments)...);
  check_launch();
#else
  emulation::run(stream, grid, block, [=] { kernel(static_cast<P>(arguments)...); });
#endif
}

template <class Body>
void dispatch(Element element, const Body& body) {
  switch (element) {
    case Element::kF32:
      return body(float{});
    case Element::kBf16:
      return body(Bf16{});
    case Element::kF16:
      return body(F16{});
  }
}

}  // namespace kernels
}  // namespace assay::cuda
