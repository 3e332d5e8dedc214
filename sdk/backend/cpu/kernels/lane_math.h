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

// For values that came from the type, or zero: nothing to round, which is half the work for bf16.
inline void store_exact(float& y, float value) { y = value; }
inline void store_exact(Bf16& y, float value) {
  y.bits = static_cast<uint16_t>(bits_of(value) >> 16);
}

// a*b + c: one rounding where the instruction set has it, two elsewhere.
inline float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// One maxps; a NaN passes through.
inline float relu(float x) { return 0.0f > x ? 0.0f : x; }
inline float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
inline float with_sign(float x, float sign) {
  return float_of((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
inline float root(float x) { return __builtin_sqrtf(x); }

// x = n ln2 + r, |r| <= ln2/2; `tail` = e^r - 1.
struct ExpParts {
  int32_t n;
  float tail;
};
inline ExpParts split_exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float t = fma(x, 1.44269504f, kRound);
  const float n = t - kRound;
  // The high part of ln 2 has 9 significant bits, so n times it is exact.
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  // Minimax fit of (e^r - 1 - r) / r^2, error below 3.2e-9.
  float p = 0.001395049155689776f;
  p = fma(p, r, 0.008368889801204205f);
  p = fma(p, r, 0.04166620597243309f);
  p = fma(p, r, 0.166665181517601f);
  p = fma(p, r, 0.5f);
  return {static_cast<int32_t>(bits_of(t) - bits_of(kRound)), fma(p * r, r, r)};
}
inline float power_of_two(int32_t n) { return float_of(static_cast<uint32_t>(n + 127) << 23); }

// e^x within 1.5 ulp; 0 below -104, infinity above 88.73.
inline float exponential(float x) {
  const float low = x < -104.0f ? -104.0f : x;
  const ExpParts e = split_exp(low > 89.0f ? 89.0f : low);
  const int32_t half = e.n >> 1;  // two factors, as 2^n alone may be no normal number
  return (e.tail + 1.0f) * power_of_two(half) * power_of_two(e.n - half);
}

// e^x - 1 within 2 ulp for x <= 80.
inline float exponential_minus_1(float x) {
  const ExpParts e = split_exp(x < -40.0f ? -40.0f : x);
  const float s = power_of_two(e.n);
  return fma(s, e.tail, s - 1.0f);
}

// 0 below -88.7, where e^-x overflows, instead of a denormal.
inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// log(1 + x) for x in [0, 1], within 2 ulp: the series of 2 atanh(x / (2 + x)).
inline float logarithm_of_1_plus(float x) {
  const float s = x / (2.0f + x);
  const float t = s * s;
  float p = 1.0f / 15.0f;
  p = fma(p, t, 1.0f / 13.0f);
  p = fma(p, t, 1.0f / 11.0f);
  p = fma(p, t, 1.0f / 9.0f);
  p = fma(p, t, 1.0f / 7.0f);
  p = fma(p, t, 0.2f);
  p = fma(p, t, 1.0f / 3.0f);
  return 2.0f * fma(s * t, p, s);
}

inline float hyperbolic_tangent(float x) {
  const float a = magnitude(x);
  const float e = exponential_minus_1(2.0f * (a > 10.0f ? 10.0f : a));  // 1 beyond, in f32
  return with_sign(e / (e + 2.0f), x);
}

// Within 2 ulp: an odd polynomial to 1, then 1 - e^-q(x), where q fits -ln erfc.
inline float error_function(float x) {
  const float magnitude_x = magnitude(x);
  const float a = magnitude_x > 4.0f ? 4.0f : magnitude_x;
  const float t = a * a;
  float small = 7.889122935011983e-05f;
  small = fma(small, t, -0.0008020842215046287f);
  small = fma(small, t, 0.005189535673707724f);
  small = fma(small, t, -0.026854444295167923f);
  small = fma(small, t, 0.11283600330352783f);
  small = fma(small, t, -0.3761262595653534f);
  small = fma(small, t, 1.1283791065216064f);
  float q = -0.0001855740265455097f;
  q = fma(q, a, 0.0029396074824035168f);
  q = fma(q, a, -0.02180531807243824f);
  q = fma(q, a, 0.10303737223148346f);
  q = fma(q, a, 0.6382256746292114f);
  q = fma(q, a, 1.1270400285720825f);
  q = fma(q, a, 0.0003537193115334958f);
  return with_sign(a < 1.0f ? small * a : 1.0f - exponential(-q), x);
}

}  // namespace assay::cpu::ASSAY_ISA
