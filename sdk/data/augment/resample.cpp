#include "sdk/data/augment/resample.h"

#include <algorithm>
#include <cmath>

namespace assay::data {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

#define ASSAY_INLINE inline __attribute__((always_inline))

ASSAY_INLINE uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

ASSAY_INLINE void resample_row(const ResampleAxis& axis, const uint8_t* row, uint8_t* target) {
  for (int x = 0; x < axis.count(); ++x, target += 4) {
    const ResampleAxis::Taps taps = axis.taps(x);
    const uint8_t* pixel = row + 4 * (taps.begin - axis.source_begin());
    int32_t sum[4] = {kHalf, kHalf, kHalf, kHalf};
    for (int k = 0; k < taps.count; ++k, pixel += 4) {
      for (int c = 0; c < 4; ++c) sum[c] += taps.weights[k] * pixel[c];
    }
    for (int c = 0; c < 4; ++c) target[c] = to_byte(sum[c]);
  }
}

// One row of the result out of `taps.count` rows of `values` bytes each.
ASSAY_INLINE void blend_rows(const ResampleAxis::Taps& taps, const uint8_t* rows, int values,
                             uint8_t* target) {
  constexpr int kBlock = 32;  // sums that stay in registers
  int x = 0;
  for (; x + kBlock <= values; x += kBlock) {
    int32_t sum[kBlock];
    std::fill_n(sum, kBlock, kHalf);
    for (int k = 0; k < taps.count; ++k) {
      const uint8_t* row = rows + int64_t{k} * values + x;
      for (int i = 0; i < kBlock; ++i) sum[i] += taps.weights[k] * row[i];
    }
    for (int i = 0; i < kBlock; ++i) target[x + i] = to_byte(sum[i]);
  }
  for (; x < values; ++x) {
    int32_t sum = kHalf;
    for (int k = 0; k < taps.count; ++k) sum += taps.weights[k] * rows[int64_t{k} * values + x];
    target[x] = to_byte(sum);
  }
}

using ResampleRow = void (*)(const ResampleAxis&, const uint8_t*, uint8_t*);
using BlendRows = void (*)(const ResampleAxis::Taps&, const uint8_t*, int, uint8_t*);

void resample_row_portable(const ResampleAxis& axis, const uint8_t* row, uint8_t* target) {
  resample_row(axis, row, target);
}
void blend_rows_portable(const ResampleAxis::Taps& taps, const uint8_t* rows, int values,
                         uint8_t* target) {
  blend_rows(taps, rows, values, target);
}

#if defined(__x86_64__)
// The same code; 32-bit products of vectors came with SSE4.1, wide ones with AVX2.
__attribute__((target("avx2"))) void resample_row_avx2(const ResampleAxis& axis, const uint8_t* row,
                                                       uint8_t* target) {
  resample_row(axis, row, target);
}
__attribute__((target("avx2"))) void blend_rows_avx2(const ResampleAxis::Taps& taps,
                                                     const uint8_t* rows, int values,
                                                     uint8_t* target) {
  blend_rows(taps, rows, values, target);
}
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
const ResampleRow resample_row_best = has_avx2 ? resample_row_avx2 : resample_row_portable;
const BlendRows blend_rows_best = has_avx2 ? blend_rows_avx2 : blend_rows_portable;
#else
const ResampleRow resample_row_best = resample_row_portable;
const BlendRows blend_rows_best = blend_rows_portable;
#endif

}  // namespace

void ResampleAxis::plan(double begin, double length, int from, int size, int first, int count) {
  const double step = length / size;
  const double widening = std::max(step, 1.0);  // half the filter's width, in source samples
  taps_.clear();
  weights_.clear();
  source_begin_ = from;
  source_end_ = 0;
  for (int position = first; position < first + count; ++position) {
    const double centre = begin + (position + 0.5) * step;
    const int low = std::max(static_cast<int>(centre - widening + 0.5), 0);
    const int high = std::min(static_cast<int>(centre + widening + 0.5), from);
    draft_.clear();
    double total = 0;
    for (int sample = low; sample < high; ++sample) {
      const double weight = std::max(1 - std::abs((sample - centre + 0.5) * (1 / widening)), 0.0);
      draft_.push_back(weight);
      total += weight;
    }
    taps_.push_back({low, high - low, weights_.size()});
    for (const double weight : draft_) {
      weights_.push_back(static_cast<int32_t>(0.5 + weight / total * (1 << kFractionBits)));
    }
    source_begin_ = std::min(source_begin_, low);
    source_end_ = std::max(source_end_, high);
  }
}

void Resampler::add_row(const uint8_t* row) {
  const size_t values = size_t{4} * static_cast<size_t>(columns.count());
  narrowed_.resize(values * static_cast<size_t>(rows.source_end() - rows.source_begin()));
  resample_row_best(columns, row, narrowed_.data() + values * static_cast<size_t>(added_++));
}

const uint8_t* Resampler::finish() {
  const int values = 4 * columns.count();
  result_.resize(static_cast<size_t>(values) * static_cast<size_t>(rows.count()));
  for (int y = 0; y < rows.count(); ++y) {
    const ResampleAxis::Taps taps = rows.taps(y);
    const int64_t first = taps.begin - rows.source_begin();
    blend_rows_best(taps, narrowed_.data() + first * values, values,
                    result_.data() + int64_t{y} * values);
  }
  return result_.data();
}

}  // namespace assay::data
