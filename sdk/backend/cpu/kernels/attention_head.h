// What the kernels of attention share, whatever their products are made of: where a head lies, what
// dropout draws for one query, and how squares of registers are turned.
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/philox_words.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {

// The halves of two vectors, lane by lane in turn.
inline Vec interleave_low(Vec a, Vec b) {
#if ASSAY_LANES == 16
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif ASSAY_LANES == 8
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
inline Vec interleave_high(Vec a, Vec b) {
#if ASSAY_LANES == 16
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
#elif ASSAY_LANES == 8
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// to[c][r] = from[r][c] of a square of registers: interleaving the halves of the rows once for
// every bit of a lane's number turns them.
template <class From, class To>
void turn_square(const From* from, int64_t pitch, To* to, int64_t to_pitch) {
  Vec rows[kLanes], other[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) rows[r] = load_vec(from + r * pitch);
  for (int64_t bit = 1; bit < kLanes; bit *= 2) {
    for (int64_t r = 0; r < kLanes / 2; ++r) {
      other[2 * r] = interleave_low(rows[r], rows[r + kLanes / 2]);
      other[2 * r + 1] = interleave_high(rows[r], rows[r + kLanes / 2]);
    }
    for (int64_t r = 0; r < kLanes; ++r) rows[r] = other[r];
  }
  for (int64_t c = 0; c < kLanes; ++c) store_vec(to + c * to_pitch, rows[c]);
}

// body(first, n, words) for stretches of the keys of one query: words[i] is drawn by key first + i.
template <class Body>
void with_words(const AttentionShape& shape, int64_t token, int64_t head, int64_t keys,
                const Body& body) {
  const int64_t row_counters = (shape.longest + 3) / 4;
  const int64_t counter = (token * shape.heads + head) * row_counters;
  alignas(64) uint32_t words[kPhiloxBlock];
  for (int64_t first = 0; first < keys; first += kPhiloxBlock) {
    draw(*shape.dropout, static_cast<uint64_t>(counter + first / 4), words);
    body(first, least(kPhiloxBlock, keys - first), words);
  }
}

// Zeros in place of the weights that dropout takes from one query.
inline void drop_weights(const AttentionShape& shape, int64_t token, int64_t head, int64_t keys,
                         float* weights) {
  const uint32_t drop_below = shape.dropout->drop_below;
  with_words(shape, token, head, keys, [&](int64_t at, int64_t count, const uint32_t* words) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      weights[at + i] = words[i] >= drop_below ? weights[at + i] : 0;
  });
}

// Asks for a row of a head before it is looked at: rows of one head lie too far apart for hardware
// to follow.
template <class T>
void ask_for_row(const T* row, int64_t size) {
  for (int64_t c = 0; c < size; c += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(row + c);
}
constexpr int64_t kRowsAhead = 16;

// From `token` on.
template <class T>
struct Head {
  int64_t pitch;  // elements from one token to the next
  T *q, *k, *v;

  Head(const AttentionShape& s, T* qkv, int64_t head, int64_t token)
      : pitch(3 * s.heads * s.size),
        q(qkv + token * pitch + head * s.size),
        k(q + s.heads * s.size),
        v(k + s.heads * s.size) {}
};

}  // namespace assay::cpu::ASSAY_ISA
