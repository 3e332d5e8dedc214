// Words of Philox4x32-10, kPhiloxBlock at a time. A test compares them with sdk/base/philox.h,
// which this folder may not include (see kernels.h).
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kPhiloxBlock = 128;

// A counter's four numbers stand in the lower halves of the same lane of four registers; what their
// products leave in the upper halves is never read.
typedef uint64_t WideBits __attribute__((vector_size(ASSAY_LANES * 4)));
constexpr int64_t kWideLanes = kLanes / 2;

inline WideBits product_of_lower_halves(WideBits x, uint32_t factor) {
#if defined(__AVX512F__)
  return reinterpret_cast<WideBits>(_mm512_maskz_mul_epu32(
      0xff, reinterpret_cast<__m512i>(x), _mm512_set1_epi64(static_cast<int64_t>(factor))));
#elif defined(__AVX2__)
  return reinterpret_cast<WideBits>(_mm256_mul_epu32(
      reinterpret_cast<__m256i>(x), _mm256_set1_epi64x(static_cast<int64_t>(factor))));
#elif defined(__SSE2__) && ASSAY_LANES == 4
  return reinterpret_cast<WideBits>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(x), _mm_set1_epi64x(static_cast<int64_t>(factor))));
#else
  return (x & 0xffffffffu) * factor;
#endif
}

// Lanes 0 and 2 and so on, or 1 and 3 and so on, of a and b in turn.
inline WideBits even_lanes(WideBits a, WideBits b) {
#if ASSAY_LANES == 16
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
#elif ASSAY_LANES == 8
  return __builtin_shufflevector(a, b, 0, 4, 2, 6);
#else
  return __builtin_shufflevector(a, b, 0, 2);
#endif
}
inline WideBits odd_lanes(WideBits a, WideBits b) {
#if ASSAY_LANES == 16
  return __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
#elif ASSAY_LANES == 8
  return __builtin_shufflevector(a, b, 1, 5, 3, 7);
#else
  return __builtin_shufflevector(a, b, 1, 3);
#endif
}

struct Philox {
  WideBits c0, c1, c2, c3;

  // Counters first to first + kWideLanes - 1: the first half of them in the even lanes, so that
  // words() has them in order.
  Philox(const DropoutRange& range, uint64_t first) {
    WideBits counter{};
    for (int64_t i = 0; i < kWideLanes; ++i)
      counter[i] = first + static_cast<uint64_t>(i / 2 + i % 2 * (kWideLanes / 2));
    c0 = counter;
    c1 = counter >> 32;
    c2 = WideBits{} + range.step;
    c3 = c2 >> 32;
  }
  void round(uint32_t key0, uint32_t key1) {
    const WideBits a = product_of_lower_halves(c0, kPhiloxMultiplier0);
    const WideBits b = product_of_lower_halves(c2, kPhiloxMultiplier1);
    c0 = (b >> 32) ^ c1 ^ key0;
    c1 = b;
    c2 = (a >> 32) ^ c3 ^ key1;
    c3 = a;
  }
  void words(uint32_t* to) const {
    const WideBits low = (c0 & 0xffffffffu) | c1 << 32, high = (c2 & 0xffffffffu) | c3 << 32;
    store_vec(reinterpret_cast<float*>(to), reinterpret_cast<Vec>(even_lanes(low, high)));
    store_vec(reinterpret_cast<float*>(to + kLanes), reinterpret_cast<Vec>(odd_lanes(low, high)));
  }
};

// What draw() fills, and room for a vector that begins at the last word.
struct alignas(64) PhiloxWords {
  uint32_t word[kPhiloxBlock + kLanes];
};

// words[4 * i + k] = word k of counter first_counter + i, i < kPhiloxBlock / 4.
inline void draw(const DropoutRange& range, uint64_t first_counter, uint32_t* words) {
  // Rounds of several registers side by side, as each waits for the one before.
  for (int64_t i = 0; i < kPhiloxBlock / 4; i += 4 * kWideLanes) {
    const uint64_t first = first_counter + static_cast<uint64_t>(i);
    Philox parts[4] = {{range, first},
                       {range, first + kWideLanes},
                       {range, first + 2 * kWideLanes},
                       {range, first + 3 * kWideLanes}};
    uint32_t key0 = range.key[0], key1 = range.key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      for (Philox& part : parts) part.round(key0, key1);
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    for (int64_t k = 0; k < 4; ++k) parts[k].words(words + 4 * (i + k * kWideLanes));
  }
}

// x scaled where its word keeps it, else 0.
inline Vec drop(const DropoutRange& range, const uint32_t* words, Vec x) {
  const VecBits drawn = reinterpret_cast<VecBits>(load_vec(reinterpret_cast<const float*>(words)));
  return drawn >= range.drop_below ? x * range.scale : Vec{};
}

}  // namespace assay::cpu::ASSAY_ISA
