// Matrix products of f32 for the kernels that make their operands themselves, piece by piece: sums
// in registers, in one order. Files that include this are compiled so that a*b + c of vectors is
// fused (kernels/CMakeLists.txt).
#pragma once

#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kPanel = 2 * kLanes;  // columns of a register block
// Rows of it: with two vectors of columns and one operand each, all registers are used.
constexpr int64_t kBlockRows = kLanes == 16 ? 12 : 6;

// out[i][kPanel] = (kAdd: itself +) sum over step of a(i, step) * b[step][kPanel].
// kAlong: a(i, step) = a[i * lda + step], else a[step * lda + i].
template <int kRows, bool kAlong, bool kAdd>
void block(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t steps, float* out,
           int64_t ldo) {
  Vec sum[kRows][2];
  for (int i = 0; i < kRows; ++i) {
    sum[i][0] = kAdd ? load_vec(out + i * ldo) : Vec{};
    sum[i][1] = kAdd ? load_vec(out + i * ldo + kLanes) : Vec{};
  }
  for (int64_t step = 0; step < steps; ++step) {
    const Vec b0 = load_vec(b), b1 = load_vec(b + kLanes);
    for (int i = 0; i < kRows; ++i) {
      const float x = kAlong ? a[i * lda] : a[i];
      sum[i][0] += x * b0;
      sum[i][1] += x * b1;
    }
    a += kAlong ? 1 : lda;
    b += ldb;
  }
  for (int i = 0; i < kRows; ++i) {
    store_vec(out + i * ldo, sum[i][0]);
    store_vec(out + i * ldo + kLanes, sum[i][1]);
  }
}

template <bool kAlong, bool kAdd>
void block_of(int64_t rows, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t steps,
              float* out, int64_t ldo) {
  using Block = void (*)(const float*, int64_t, const float*, int64_t, int64_t, float*, int64_t);
  static constexpr Block kBlocks[] = {
    block<1, kAlong, kAdd>,
    block<2, kAlong, kAdd>,
    block<3, kAlong, kAdd>,
    block<4, kAlong, kAdd>,
    block<5, kAlong, kAdd>,
    block<6, kAlong, kAdd>,
#if ASSAY_LANES == 16
    block<7, kAlong, kAdd>,
    block<8, kAlong, kAdd>,
    block<9, kAlong, kAdd>,
    block<10, kAlong, kAdd>,
    block<11, kAlong, kAdd>,
    block<12, kAlong, kAdd>,
#endif
  };
  kBlocks[rows - 1](a, lda, b, ldb, steps, out, ldo);
}

// Calls visit(first, rows) for blocks of even height that cover [0, rows).
template <class Visit>
void for_blocks(int64_t rows, const Visit& visit) {
  const int64_t count = (rows + kBlockRows - 1) / kBlockRows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * rows / count;
    visit(first, (i + 1) * rows / count - first);
  }
}

// out [rows][kPanel] = (itself if add, +) a [rows][steps] b [steps][kPanel], each with its pitch.
inline void product(const float* a, int64_t lda, int64_t rows, const float* b, int64_t ldb,
                    int64_t steps, bool add, float* out, int64_t ldo) {
  for_blocks(rows, [&](int64_t first, int64_t count) {
    const float* from = a + first * lda;
    add ? block_of<true, true>(count, from, lda, b, ldb, steps, out + first * ldo, ldo)
        : block_of<true, false>(count, from, lda, b, ldb, steps, out + first * ldo, ldo);
  });
}

// The same of a [steps][rows].
inline void outer_product(const float* a, int64_t lda, int64_t rows, const float* b, int64_t ldb,
                          int64_t steps, bool add, float* out, int64_t ldo) {
  for_blocks(rows, [&](int64_t first, int64_t count) {
    add ? block_of<false, true>(count, a + first, lda, b, ldb, steps, out + first * ldo, ldo)
        : block_of<false, false>(count, a + first, lda, b, ldb, steps, out + first * ldo, ldo);
  });
}

}  // namespace assay::cpu::ASSAY_ISA
