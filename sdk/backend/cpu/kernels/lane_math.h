// Scalar building blocks that compilers turn into vector code: loads, stores, and the functions of
// the activations. Included only by the kernels (see kernels.h for the include rule); everything
// lives in the namespace of one instruction set.
//
// The files are compiled with -ffp-contract=off, so that a multiply-add is fused exactly where
// fma() is called: expressions that must agree bit for bit (the relu mask that the gradient
// recomputes) do.
#pragma once

#include <stdint.h>

#include "sdk/base/kernel_constants.h"

#ifndef ASSAY_ISA
#error "kernels are compiled once per instruction set, with -DASSAY_ISA=<namespace>"
#endif

namespace assay::cpu::ASSAY_ISA {

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

struct Bf16 {
  uint16_t bits;
};

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline float load(const float& x) { return x; }
inline float load(const Bf16& x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

inline void store(float& y, float value) { y = value; }
// Nearest even by integer arithmetic: the AVX512-BF16 instruction flushes denormals, which would
// give other bits than the rest of the engine.
inline void store(Bf16& y, float value) {
  const uint32_t u = bits_of(value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (u >> 16) | 0x40u;
  y.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

// a*b + c: one rounding where the instruction set has it, two elsewhere.
inline float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
inline float root(float x) { return __builtin_sqrtf(x); }

// Asks for what lies as far behind x as a loop over long runs of memory comes to some hundred
// cycles later. Hardware follows few runs at a time and none into the next page; nothing is read,
// so the end of the memory does not matter.
inline void ask_ahead(const void* x) {
  constexpr uintptr_t kAhead = 4096;
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + kAhead));
}

// body(i) for each of n elements, as vector code that asks ahead in `runs`, whose elements i it
// reads or writes.
template <class Body, class... T>
[[gnu::always_inline]] inline void for_elements(int64_t n, const Body& body, const T*... runs) {
  constexpr int64_t kStretch = 64, kLine = 64;
  int64_t begin = 0;
  for (; begin + kStretch <= n; begin += kStretch) {
    const auto ask = [begin](const auto* run) {
      for (int64_t i = 0; i < kStretch; i += kLine / static_cast<int64_t>(sizeof *run))
        ask_ahead(run + begin + i);
    };
    (ask(runs), ...);
#pragma omp simd
    for (int64_t i = begin; i < begin + kStretch; ++i) body(i);
  }
#pragma omp simd
  for (int64_t i = begin; i < n; ++i) body(i);
}

inline float power_of_two(int32_t n) { return float_of(static_cast<uint32_t>(n + 127) << 23); }

// e^x within 1.5 ulp; 0 below -104, infinity above 88.73. As split_exp() of vector_math.h, with its
// constants.
inline float exponential(float x) {
  constexpr float kRound = 12582912.0f;
  const float low = x < -104.0f ? -104.0f : x, bounded = low > 89.0f ? 89.0f : low;
  const float t = fma(bounded, 1.44269504f, kRound);
  const float n = t - kRound;
  float r = fma(n, -0.693359375f, bounded);
  r = fma(n, 2.12194440e-4f, r);
  float p = 0.001395049155689776f;
  p = fma(p, r, 0.008368889801204205f);
  p = fma(p, r, 0.04166620597243309f);
  p = fma(p, r, 0.166665181517601f);
  p = fma(p, r, 0.5f);
  const auto power = static_cast<int32_t>(bits_of(t) - bits_of(kRound));
  const int32_t half = power >> 1;  // two factors, as 2^power alone may be no normal number
  return (fma(p * r, r, r) + 1.0f) * power_of_two(half) * power_of_two(power - half);
}

// 0 below -88.7, where e^-x overflows, instead of a denormal.
inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

}  // namespace assay::cpu::ASSAY_ISA
