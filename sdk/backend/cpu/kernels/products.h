// Matrix products of f32 for the kernels that make their operands themselves, piece by piece: sums
// in registers, in one order. Files that include this are compiled so that a*b + c of vectors is
// fused (kernels/CMakeLists.txt).
#pragma once

#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kPanel = 2 * kLanes;  // columns of a register block
// Rows of it: with two vectors of columns and one operand each, all registers are used.
constexpr int kBlockRows = kLanes == 16 ? 12 : 6;

// sum + a * b, rounded once where the processor can. Left to itself gcc 12 copies sums
// of unrolled steps from register to register; instructions are time where two threads share a
// core.
inline Vec sum_with(Vec sum, Vec a, Vec b) {
#if defined(__FMA__)
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
#else
  return sum + a * b;
#endif
}
inline Vec in_all_lanes(float x) {
#if ASSAY_LANES == 16
  return Vec{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif ASSAY_LANES == 8
  return Vec{x, x, x, x, x, x, x, x};
#else
  return Vec{x, x, x, x};
#endif
}

// Sums of some rows of a panel. As members, not an array, gcc 12 keeps them in registers from end
// to end.
template <int kRows>
struct Sums {
  Sums<kRows - 1> before;
  Vec left, right;

  // visit(row, left, right) for each.
  template <class Visit>
  [[gnu::always_inline]] void for_each(const Visit& visit) {
    before.for_each(visit);
    visit(kRows - 1, left, right);
  }
};
template <>
struct Sums<0> {
  template <class Visit>
  void for_each(const Visit&) {}
};

template <int kRows, bool kAdd>
inline Sums<kRows> sums_at(const float* from, int64_t pitch) {
  Sums<kRows> sums{};
  if (!kAdd) return sums;
  sums.for_each([&](int i, Vec& left, Vec& right) {
    left = load_vec(from + i * pitch), right = load_vec(from + i * pitch + kLanes);
  });
  return sums;
}

// sums += sum over step of at(row, step) * b[step][kPanel]. Calls ask(b) at every kUnrolled steps.
constexpr int64_t kUnrolled = 8;
template <int kRows, class At, class Ask>
[[gnu::always_inline]] inline void add_products(Sums<kRows>& sums, const At& at, const float* b,
                                                int64_t ldb, int64_t steps, const Ask& ask) {
  const auto add_step = [&](int64_t step, const float* row) __attribute__((always_inline)) {
    const Vec b0 = load_vec(row), b1 = load_vec(row + kLanes);
    sums.for_each([&](int i, Vec& left, Vec& right) __attribute__((always_inline)) {
      const Vec x = in_all_lanes(at(i, step));
      left = sum_with(left, x, b0), right = sum_with(right, x, b1);
    });
  };
  int64_t step = 0;
  for (; step + kUnrolled <= steps; step += kUnrolled, b += kUnrolled * ldb) {
    ask(b);
    add_step(step, b);
    add_step(step + 1, b + ldb);
    add_step(step + 2, b + 2 * ldb);
    add_step(step + 3, b + 3 * ldb);
    add_step(step + 4, b + 4 * ldb);
    add_step(step + 5, b + 5 * ldb);
    add_step(step + 6, b + 6 * ldb);
    add_step(step + 7, b + 7 * ldb);
  }
  for (; step < steps; ++step, b += ldb) add_step(step, b);
}

// out[row][kPanel] = (kAdd: itself +) sum over step of a(row, step) * b[step][kPanel].
// kAlong: a(row, step) = a[row * lda + step], else a[step * lda + row].
template <int kRows, bool kAlong, bool kAdd>
void block(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t steps, float* out,
           int64_t ldo) {
  Sums<kRows> sums = sums_at<kRows, kAdd>(out, ldo);
  const auto at = [=](int i, int64_t step) {
    return kAlong ? a[i * lda + step] : a[step * lda + i];
  };
  add_products(sums, at, b, ldb, steps, [](const float*) {});
  sums.for_each([&](int i, Vec& left, Vec& right) {
    store_vec(out + i * ldo, left), store_vec(out + i * ldo + kLanes, right);
  });
}

// Calls body<rows>(), rows being at most kBlockRows.
template <int kRows = kBlockRows, class Body>
inline void with_rows(int64_t rows, const Body& body) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return with_rows<kRows - 1>(rows, body);
  }
  body.template operator()<kRows>();
}

template <bool kAlong, bool kAdd>
void block_of(int64_t rows, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t steps,
              float* out, int64_t ldo) {
  with_rows(rows,
            [&]<int kRows>() { block<kRows, kAlong, kAdd>(a, lda, b, ldb, steps, out, ldo); });
}

// Calls visit(first, rows) for blocks of about even height that cover [0, rows).
template <class Visit>
void for_blocks(int64_t rows, const Visit& visit) {
  const int64_t count = (rows + kBlockRows - 1) / kBlockRows, height = rows / count;
  const int64_t higher = rows - height * count;  // so many have a row more
  for (int64_t i = 0, first = 0; i < count; ++i) {
    const int64_t here = height + (i < higher ? 1 : 0);
    visit(first, here);
    first += here;
  }
}

// out [rows][kPanel] = a [rows][steps] b [steps][kPanel], each with its pitch.
inline void product(const float* a, int64_t lda, int64_t rows, const float* b, int64_t ldb,
                    int64_t steps, float* out, int64_t ldo) {
  for_blocks(rows, [&](int64_t first, int64_t count) {
    block_of<true, false>(count, a + first * lda, lda, b, ldb, steps, out + first * ldo, ldo);
  });
}

// The same of a [steps][rows], or added to out.
inline void outer_product(const float* a, int64_t lda, int64_t rows, const float* b, int64_t ldb,
                          int64_t steps, bool add, float* out, int64_t ldo) {
  for_blocks(rows, [&](int64_t first, int64_t count) {
    add ? block_of<false, true>(count, a + first, lda, b, ldb, steps, out + first * ldo, ldo)
        : block_of<false, false>(count, a + first, lda, b, ldb, steps, out + first * ldo, ldo);
  });
}

}  // namespace assay::cpu::ASSAY_ISA
