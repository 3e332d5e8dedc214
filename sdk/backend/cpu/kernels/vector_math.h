// Functions of a register of floats, for the activations and losses whose loops a compiler turns
// into slow vector code; exp of one number as well, for rows of a few classes. Included only by the
// kernels (see kernels.h for the include rule).
#pragma once

#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {

// a*b + c as fma() of lane_math.h: one rounding where the instruction set has it, two elsewhere.
inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  return reinterpret_cast<Vec>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}
inline Vec fma(Vec a, Vec b, float c) { return fma(a, b, Vec{} + c); }
inline Vec fma(Vec a, float b, Vec c) { return fma(a, Vec{} + b, c); }

inline Vec root(Vec x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(x)));
#elif defined(__AVX__)
  return reinterpret_cast<Vec>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#elif defined(__SSE2__)
  return reinterpret_cast<Vec>(_mm_sqrt_ps(reinterpret_cast<__m128>(x)));
#else
  for (int64_t i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

inline VecBits bits_of(Vec x) { return reinterpret_cast<VecBits>(x); }
inline Vec float_of(VecBits bits) { return reinterpret_cast<Vec>(bits); }

// A NaN of x passes through. One instruction each, for which gcc 12 takes two of AVX-512.
inline Vec at_least(Vec x, float low) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_maskz_max_ps(0xffff, _mm512_set1_ps(low), reinterpret_cast<__m512>(x)));
#else
  return x < low ? Vec{} + low : x;
#endif
}
inline Vec at_most(Vec x, float high) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_maskz_min_ps(0xffff, _mm512_set1_ps(high), reinterpret_cast<__m512>(x)));
#else
  return x > high ? Vec{} + high : x;
#endif
}
inline float at_least(float x, float low) { return x < low ? low : x; }
inline float at_most(float x, float high) { return x > high ? high : x; }
inline Vec relu(Vec x) { return at_least(x, 0.0f); }
inline Vec magnitude(Vec x) { return float_of(bits_of(x) & 0x7fffffffu); }
inline Vec with_sign(Vec x, Vec sign) {
  return float_of((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

// e^x = 2 half_power (1 + r + fit r^2), |r| <= ln2 / 2.
template <class V>
struct ExpParts {
  V half_power, r, fit;
};
// x from -87.3, where the power is 0, to 89.5, where it is infinite.
template <class V>
ExpParts<V> split_exp(V x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const V t = fma(x, 1.44269504f, V{} + kRound);
  const V n = t - kRound;
  // The high part of ln 2 has 9 significant bits, so n times it is exact.
  V r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  // Minimax fit of (e^r - 1 - r) / r^2, error below 3.2e-9.
  V p = fma(V{} + 0.001395049155689776f, r, 0.008368889801204205f);
  p = fma(p, r, 0.04166620597243309f);
  p = fma(p, r, 0.166665181517601f);
  p = fma(p, r, 0.5f);
  // n are the low bits of t, and 2^(n - 1) goes from the exponent of 0 to that of infinity.
  return {float_of((bits_of(t) << 23) + 0x3f000000u), r, p};
}

// e^x within 1.5 ulp; 0 below -87, infinity above 88.73.
template <class V>
V exponential(V x) {
  const auto e = split_exp(at_most(at_least(x, -87.3f), 89.5f));
  return 2.0f * (e.half_power * fma(fma(e.fit, e.r, 1.0f), e.r, 1.0f));
}

// Of a row that a softmax goes over.
struct RowSums {
  float largest;
  float exponentials;  // sum of e^(x - largest)
};

// e^x - 1 within 2 ulp for x <= 80.
inline Vec exponential_minus_1(Vec x) {
  const auto e = split_exp(at_most(at_least(x, -40.0f), 89.5f));
  const Vec power = 2.0f * e.half_power;
  return fma(power, fma(e.fit * e.r, e.r, e.r), power - 1.0f);
}

inline Vec sigmoid(Vec x) {
  const auto e = split_exp(at_most(at_least(-x, -87.3f), 89.5f));
  return 0.5f / fma(e.half_power, fma(fma(e.fit, e.r, 1.0f), e.r, 1.0f), Vec{} + 0.5f);
}

// log(1 + x) for x in [0, 1], within 2 ulp: the series of 2 atanh(x / (2 + x)).
inline Vec logarithm_of_1_plus(Vec x) {
  const Vec s = x / (2.0f + x);
  const Vec t = s * s;
  Vec p = fma(Vec{} + 1.0f / 15.0f, t, 1.0f / 13.0f);
  p = fma(p, t, 1.0f / 11.0f);
  p = fma(p, t, 1.0f / 9.0f);
  p = fma(p, t, 1.0f / 7.0f);
  p = fma(p, t, 0.2f);
  p = fma(p, t, 1.0f / 3.0f);
  return 2.0f * fma(s * t, p, s);
}

inline Vec hyperbolic_tangent(Vec x) {
  const Vec e = exponential_minus_1(2.0f * at_most(magnitude(x), 10.0f));  // 1 beyond, in f32
  return with_sign(e / (e + 2.0f), x);
}

// Within 2 ulp: an odd polynomial to 1, then 1 - e^-q(x), where q fits -ln erfc.
inline Vec error_function(Vec x) {
  const Vec a = at_most(magnitude(x), 4.0f);
  const Vec t = a * a;
  Vec small = fma(Vec{} + 7.889122935011983e-05f, t, -0.0008020842215046287f);
  small = fma(small, t, 0.005189535673707724f);
  small = fma(small, t, -0.026854444295167923f);
  small = fma(small, t, 0.11283600330352783f);
  small = fma(small, t, -0.3761262595653534f);
  small = fma(small, t, 1.1283791065216064f);
  Vec q = fma(Vec{} - 0.0001855740265455097f, a, 0.0029396074824035168f);
  q = fma(q, a, -0.02180531807243824f);
  q = fma(q, a, 0.10303737223148346f);
  q = fma(q, a, 0.6382256746292114f);
  q = fma(q, a, 1.1270400285720825f);
  q = fma(q, a, 0.0003537193115334958f);
  return with_sign(a < 1.0f ? small * a : 1.0f - exponential(-q), x);
}

}  // namespace assay::cpu::ASSAY_ISA
