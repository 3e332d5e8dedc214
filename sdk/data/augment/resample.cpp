// Pillow's two-pass resampling in 22-bit fixed point: every source row is narrowed as it comes
// (add_row), the rows are blended at the end (finish). The four bytes of
// a pixel are filtered alike.
#include "sdk/data/augment/resample.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace assay::data {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

int nearest(double x) { return static_cast<int>(std::floor(x + 0.5)); }

// One row of the result out of `taps` rows of `values` bytes each.
[[gnu::always_inline]] inline void blend_rows(const int32_t* weights, int taps, const uint8_t* rows,
                                              int values, uint8_t* target) {
  constexpr int kBlock = 32;  // sums that stay in registers
  int x = 0;
  for (; x + kBlock <= values; x += kBlock) {
    int32_t sum[kBlock];
    std::fill_n(sum, kBlock, kHalf);
    for (int k = 0; k < taps; ++k) {
      const uint8_t* row = rows + int64_t{k} * values + x;
      for (int i = 0; i < kBlock; ++i) sum[i] += weights[k] * row[i];
    }
    for (int i = 0; i < kBlock; ++i) {
      target[x + i] = static_cast<uint8_t>(std::min(sum[i] >> kFractionBits, 255));
    }
  }
  for (; x < values; ++x) {
    int32_t sum = kHalf;
    for (int k = 0; k < taps; ++k) sum += weights[k] * rows[int64_t{k} * values + x];
    target[x] = static_cast<uint8_t>(std::min(sum >> kFractionBits, 255));
  }
}

// `row` begins at the axis' source_begin.
void resample_row_portable(const ResampleAxis& axis, const uint8_t* row, uint8_t* target) {
  for (int x = 0; x < axis.count(); ++x, target += 4) {
    const int32_t* weights = axis.weights(x);
    const uint8_t* pixel = row + 4 * (axis.begin(x) - axis.source_begin());
    int32_t sum[4] = {kHalf, kHalf, kHalf, kHalf};
    for (int k = 0; k < axis.taps(); ++k, pixel += 4) {
      for (int c = 0; c < 4; ++c) sum[c] += weights[k] * pixel[c];
    }
    for (int c = 0; c < 4; ++c) {
      target[c] = static_cast<uint8_t>(std::min(sum[c] >> kFractionBits, 255));
    }
  }
}
void blend_rows_portable(const int32_t* weights, int taps, const uint8_t* rows, int values,
                         uint8_t* target) {
  blend_rows(weights, taps, rows, values, target);
}

using ResampleRow = decltype(&resample_row_portable);
using BlendRows = decltype(&blend_rows_portable);

#if defined(__x86_64__)
// The same sums, a pixel's channels side by side: compilers do not find this way to widen bytes.
// kTaps 0: as many as the axis has; known numbers make loops without ends to test for.
template <int kTaps>
__attribute__((target("avx2"))) void resample_row_avx2(const ResampleAxis& axis, const uint8_t* row,
                                                       uint8_t* target) {
  const int taps = kTaps > 0 ? kTaps : axis.taps();
  const int count = axis.count(), source_begin = axis.source_begin();
  const int32_t* weights = axis.weights(0);
  for (int x = 0; x < count; ++x, target += 4, weights += taps) {
    const uint8_t* pixel = row + 4 * (axis.begin(x) - source_begin);
    __m128i sum = _mm_set1_epi32(kHalf);
    for (int k = 0; k < taps; ++k) {
      const __m128i channels = _mm_cvtepu8_epi32(_mm_loadu_si32(pixel + 4 * k));
      sum = _mm_add_epi32(sum, _mm_mullo_epi32(channels, _mm_set1_epi32(weights[k])));
    }
    const __m128i level = _mm_srai_epi32(sum, kFractionBits);
    const __m128i words = _mm_packus_epi32(level, level);  // saturates, so that 256 becomes 255
    _mm_storeu_si32(target, _mm_packus_epi16(words, words));
  }
}

void resample_row_by_taps(const ResampleAxis& axis, const uint8_t* row, uint8_t* target) {
  constexpr ResampleRow kKnown[] = {
      resample_row_avx2<0>, resample_row_avx2<0>, resample_row_avx2<2>, resample_row_avx2<3>,
      resample_row_avx2<4>, resample_row_avx2<5>, resample_row_avx2<6>, resample_row_avx2<7>};
  kKnown[axis.taps() < 8 ? axis.taps() : 0](axis, row, target);
}

// The same code; 32-bit products of vectors came with SSE4.1, wide ones with AVX2.
__attribute__((target("avx2"))) void blend_rows_avx2(const int32_t* weights, int taps,
                                                     const uint8_t* rows, int values,
                                                     uint8_t* target) {
  blend_rows(weights, taps, rows, values, target);
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
const ResampleRow kResampleRow = kHasAvx2 ? resample_row_by_taps : resample_row_portable;
const BlendRows kBlendRows = kHasAvx2 ? blend_rows_avx2 : blend_rows_portable;
#else
const ResampleRow kResampleRow = resample_row_portable;
const BlendRows kBlendRows = blend_rows_portable;
#endif

}  // namespace

void ResampleAxis::plan(double begin, double length, int from, int size, int first, int count) {
  const double step = length / size;
  const double widening = std::max(step, 1.0);  // half the filter's width, in source samples
  const auto centre = [&](int i) { return begin + (first + i + 0.5) * step; };
  const auto low = [&](int i) { return std::max(nearest(centre(i) - widening), 0); };
  const auto high = [&](int i) { return std::min(nearest(centre(i) + widening), from); };
  source_begin_ = low(0);
  source_end_ = high(count - 1);
  taps_ = 0;
  for (int i = 0; i < count; ++i) taps_ = std::max(taps_, high(i) - low(i));
  begins_.resize(static_cast<size_t>(count));
  weights_.assign(static_cast<size_t>(count) * static_cast<size_t>(taps_), 0);
  for (int i = 0; i < count; ++i) {
    const auto weight = [&](int sample) {
      return std::max(1 - std::abs((sample - centre(i) + 0.5) * (1 / widening)), 0.0);
    };
    double total = 0;
    for (int sample = low(i); sample < high(i); ++sample) total += weight(sample);
    // Near the end the taps begin earlier, with weights of 0, so that none reads past the source.
    const int start = std::min(low(i), source_end_ - taps_);
    begins_[static_cast<size_t>(i)] = start;
    int32_t* weights = weights_.data() + static_cast<size_t>(i) * static_cast<size_t>(taps_);
    for (int sample = low(i); sample < high(i); ++sample) {
      // Weights sum to 2^22 up to rounding, so 255 times their sum stays far below 2^31.
      weights[sample - start] = nearest(weight(sample) / total * (1 << kFractionBits));
    }
  }
}

void Resampler::add_row(const uint8_t* row) {
  const size_t values = size_t{4} * static_cast<size_t>(columns.count());
  narrowed_.resize(values * static_cast<size_t>(rows.source_end() - rows.source_begin()));
  kResampleRow(columns, row, narrowed_.data() + values * static_cast<size_t>(added_++));
}

const uint8_t* Resampler::finish() {
  const int values = 4 * columns.count();
  result_.resize(static_cast<size_t>(values) * static_cast<size_t>(rows.count()));
  for (int y = 0; y < rows.count(); ++y) {
    const int64_t first = rows.begin(y) - rows.source_begin();
    kBlendRows(rows.weights(y), rows.taps(), narrowed_.data() + first * values, values,
               result_.data() + int64_t{y} * values);
  }
  return result_.data();
}

}  // namespace assay::data
