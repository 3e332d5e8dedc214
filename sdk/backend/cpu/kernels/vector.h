// One register of floats: loads and stores of it or of a part, as f32 or bf16. Included only by the
// kernels (see kernels.h for the include rule).
#pragma once

#include "sdk/backend/cpu/kernels/lane_math.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define ASSAY_LANES 16
#elif defined(__AVX__)
#define ASSAY_LANES 8
#else
#define ASSAY_LANES 4
#endif

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kLanes = ASSAY_LANES;

typedef float Vec __attribute__((vector_size(ASSAY_LANES * 4)));
typedef float LooseVec __attribute__((vector_size(ASSAY_LANES * 4), aligned(4), may_alias));
typedef uint32_t VecBits __attribute__((vector_size(ASSAY_LANES * 4)));
typedef int32_t VecMask __attribute__((vector_size(ASSAY_LANES * 4)));  // of a comparison
typedef uint16_t HalfBits __attribute__((vector_size(ASSAY_LANES * 2)));
typedef uint16_t LooseHalfBits __attribute__((vector_size(ASSAY_LANES * 2), aligned(2), may_alias));

// Each in one instruction, for which gcc 12 takes four of AVX-512. (With a mask of all lanes, as
// its intrinsics without one take undefined operands, against which it then warns.)
inline VecBits widened(HalfBits x) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecBits>(
      _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(x)));
#else
  return __builtin_convertvector(x, VecBits);
#endif
}
inline HalfBits narrowed(VecBits x) {
#if defined(__AVX512F__)
  return reinterpret_cast<HalfBits>(
      _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(x)));
#else
  return __builtin_convertvector(x, HalfBits);
#endif
}

// No alignment is required.
inline Vec load_vec(const float* x) { return *reinterpret_cast<const LooseVec*>(x); }
inline Vec load_vec(const Bf16* x) {
  const HalfBits half = *reinterpret_cast<const LooseHalfBits*>(x);
  return reinterpret_cast<Vec>(widened(half) << 16);
}

inline void store_vec(float* y, Vec value) { *reinterpret_cast<LooseVec*>(y) = value; }
// The bits of bf16 in the upper halves, as store() of lane_math.h has them: to nearest even, NaN
// quiet.
inline VecBits bf16_bits(Vec value) {
  const VecBits u = reinterpret_cast<VecBits>(value);
  const VecBits rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return value != value ? u | 0x400000u : rounded;
}
inline void store_vec(Bf16* y, Vec value) {
  *reinterpret_cast<LooseHalfBits*>(y) = narrowed(bf16_bits(value) >> 16);
}

// Fewer than all lanes.
#if defined(__AVX512F__)
inline __mmask16 mask_of(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline Vec load_part(const float* x, int64_t n) {
  return reinterpret_cast<Vec>(_mm512_maskz_loadu_ps(mask_of(n), x));
}
inline Vec load_part(const Bf16* x, int64_t n) {
  const __m256i half = _mm256_maskz_loadu_epi16(mask_of(n), x);
  return reinterpret_cast<Vec>(widened(reinterpret_cast<HalfBits>(half)) << 16);
}
inline void store_part(float* y, Vec value, int64_t n) {
  _mm512_mask_storeu_ps(y, mask_of(n), reinterpret_cast<__m512>(value));
}
inline void store_part(Bf16* y, Vec value, int64_t n) {
  const HalfBits half = narrowed(bf16_bits(value) >> 16);
  _mm256_mask_storeu_epi16(y, mask_of(n), reinterpret_cast<__m256i>(half));
}
#else
template <class T>
Vec load_part(const T* x, int64_t n) {
  T part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = x[i];
  return load_vec(part);
}
template <class T>
void store_part(T* y, Vec value, int64_t n) {
  T part[kLanes];
  store_vec(part, value);
  for (int64_t i = 0; i < n; ++i) y[i] = part[i];
}
#if defined(__AVX2__)
inline __m256i mask_of(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load_part(const float* x, int64_t n) {
  return reinterpret_cast<Vec>(_mm256_maskload_ps(x, mask_of(n)));
}
inline void store_part(float* y, Vec value, int64_t n) {
  _mm256_maskstore_ps(y, mask_of(n), reinterpret_cast<__m256>(value));
}
#endif
#endif

// The first `n` lanes, at least one; the others are zero, or left alone.
template <class T>
Vec load_lanes(const T* x, int64_t n) {
  return n >= kLanes ? load_vec(x) : load_part(x, n);
}
template <class T>
void store_lanes(T* y, Vec value, int64_t n) {
  n >= kLanes ? store_vec(y, value) : store_part(y, value, n);
}
// x with `others` in the lanes behind the first n.
inline Vec first_lanes(Vec x, int64_t n, float others = 0) {
  if (n >= kLanes) return x;
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(
      _mm512_mask_blend_ps(mask_of(n), _mm512_set1_ps(others), reinterpret_cast<__m512>(x)));
#else
  for (int64_t i = n; i < kLanes; ++i) x[i] = others;
  return x;
#endif
}

// As load_lanes() and store_lanes(), of long runs of memory, with what comes later asked for.
template <class T>
Vec stream_lanes(const T* x, int64_t n) {
  ask_ahead(x);
  return load_lanes(x, n);
}
template <class T>
void stream_lanes(T* y, Vec value, int64_t n) {
  ask_ahead(y);
  store_lanes(y, value, n);
}

// body(i, n) for each vector of elements, of which the last may have fewer than all lanes.
template <class Body>
void for_vectors(int64_t elements, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= elements; i += kLanes) body(i, kLanes);
  if (i < elements) body(i, elements - i);
}

// Half a register as one of f64.
typedef double Doubles __attribute__((vector_size(ASSAY_LANES * 4)));
inline Doubles lower_doubles(Vec x) {
#if defined(__AVX512F__)
  return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7), Doubles);
#elif defined(__AVX__)
  const __m128 half = _mm256_castps256_ps128(reinterpret_cast<__m256>(x));
  return reinterpret_cast<Doubles>(_mm256_cvtps_pd(half));
#elif defined(__SSE2__)
  return reinterpret_cast<Doubles>(_mm_cvtps_pd(reinterpret_cast<__m128>(x)));
#else
  Doubles out{};
  for (int64_t i = 0; i < kLanes / 2; ++i) out[i] = static_cast<double>(x[i]);
  return out;
#endif
}
inline Doubles upper_doubles(Vec x) {
#if ASSAY_LANES == 16
  return lower_doubles(
      __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
#elif ASSAY_LANES == 8
  return lower_doubles(__builtin_shufflevector(x, x, 4, 5, 6, 7, 4, 5, 6, 7));
#else
  return lower_doubles(__builtin_shufflevector(x, x, 2, 3, 2, 3));
#endif
}

inline bool any(VecMask x) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(x)) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(x)) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps(reinterpret_cast<__m128>(x)) != 0;
#else
  int32_t bits = 0;
  for (int64_t i = 0; i < kLanes; ++i) bits |= x[i];
  return bits != 0;
#endif
}

// Of the first n lanes, if there are as many.
inline float sum_of_lanes(Vec x, int64_t n = kLanes) {
  float sum = 0;
  for (int64_t i = 0; i < least(n, kLanes); ++i) sum += x[i];
  return sum;
}

// Small whole numbers, in two bytes each.
inline VecBits load_lanes(const uint16_t* x, int64_t n) {
  uint16_t part[kLanes] = {};
  for (int64_t i = 0; n < kLanes && i < n; ++i) part[i] = x[i];
  const uint16_t* from = n < kLanes ? part : x;
  return widened(*reinterpret_cast<const LooseHalfBits*>(from));
}
inline void store_lanes(uint16_t* y, VecBits value, int64_t n) {
  const HalfBits half = narrowed(value);
  if (n >= kLanes) {
    *reinterpret_cast<LooseHalfBits*>(y) = half;
    return;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = half[i];
}

}  // namespace assay::cpu::ASSAY_ISA
