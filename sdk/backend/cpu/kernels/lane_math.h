// Scalar building blocks of the kernels, which compilers turn into vector code: loads, stores, a
// fused multiply-add. Included only by the kernels (see kernels.h for the include rule); everything
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

}  // namespace assay::cpu::ASSAY_ISA
