// Sums over pixels: the gradient of a convolution's filters. Of some pixels what the window covers
// is brought into panels of columns, steps being pixels, and multiplied by all filters of dy.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/products.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Steps of a panel and of a block of filters that stay in the first-level cache together.
constexpr int64_t kPixels = 256;
constexpr int64_t kBlock = kPixels * kBlockRows;
// Columns of some panels, whose pixels are read once. Behind those of each pixel a line is left,
// for 256 pixels at a distance of a power of two would share a few sets of the cache.
constexpr int64_t kColumns = 4 * kPanel, kPitch = kColumns + 16;
constexpr int64_t kAhead = 8;  // pixels

// Pixels [begin, end), behind s.begin, of dy to blocks [pixel][kBlockRows] of filters.
template <class T>
void fill_blocks_of(const PixelSum& s, int64_t begin, int64_t end, float* blocks) {
  const auto* dy = static_cast<const T*>(s.dy);
  for (int64_t k = 0; k < s.filters; k += kBlockRows, blocks += kBlock) {
    const int64_t filters = least(kBlockRows, s.filters - k);
    for (int64_t i = begin; i < end; ++i) {
      const T* from = dy + (s.begin + i) * s.filters + k;
      float* to = blocks + i * kBlockRows;
      __builtin_prefetch(from + kAhead * s.filters);
      if constexpr (sizeof(T) == sizeof(float)) {
        if (filters == kBlockRows) {  // a number known beforehand
          __builtin_memcpy(to, from, kBlockRows * sizeof(float));
          continue;
        }
      }
      for (int64_t j = 0; j < filters; ++j) to[j] = load(from[j]);
    }
  }
}

void fill_blocks(const PixelSum& s, int64_t begin, int64_t end, float* blocks) {
  s.element == kElementF32 ? fill_blocks_of<float>(s, begin, end, blocks)
                           : fill_blocks_of<Bf16>(s, begin, end, blocks);
}

// Columns that lie side by side in the image, too: those of one row of the window, or, where it has
// gaps, of one tap.
struct Run {
  int64_t row, offset, columns;  // of the window; elements behind its first; how many
};
Run run_from(const PixelSum& s, int64_t column, int64_t limit) {
  const PanelWindows& w = s.windows;
  const int64_t tap = column / s.channels, channel = column % s.channels;
  const int64_t taps = w.dilation[1] > 1 ? 1 : w.s - tap % w.s;  // to the end of the run
  return {tap / w.s, tap % w.s * w.dilation[1] * s.channels + channel,
          least(taps * s.channels - channel, limit)};
}

// Both write whole vectors: what lies behind is written later.
template <class T>
void copy_run(const T* from, int64_t columns, float* to) {
  for (int64_t c = 0; c < columns; c += kLanes)
    store_vec(to + c, load_lanes(from + c, columns - c));
}
void clear_run(int64_t columns, float* to) {
  for (int64_t c = 0; c < columns; c += kLanes) store_vec(to + c, Vec{});
}

// Columns of a run from `x` on in a row of the image, parts of which may lie outside.
template <class T>
void clip_run(const T* row, int64_t of_row, int64_t x, int64_t columns, float* to) {
  const int64_t begin = least(columns, x < 0 ? -x : 0);
  const int64_t end = most(begin, least(columns, of_row - x));
  clear_run(begin, to);
  copy_run(row + x + begin, end - begin, to + begin);
  clear_run(columns - end, to + end);
}

// Columns [first, first + columns) of all pixels, in whole panels.
template <class T>
void fill_columns(const PixelSum& s, int64_t first, int64_t columns, float* to) {
  const PanelWindows& w = s.windows;
  const auto* images = static_cast<const T*>(s.x);
  constexpr int64_t kOfLine = 64 / sizeof(T);  // of the cache
  const int64_t of_row = w.w * s.channels, of_step = w.stride[1] * s.channels;
  Run runs[kColumns];
  int64_t count = 0;
  for (int64_t c = 0; c < columns; c += runs[count++].columns)
    runs[count] = run_from(s, first + c, columns - c);

  const int64_t behind = (columns + kPanel - 1) / kPanel * kPanel - columns;
  const int64_t steps = s.end - s.begin;
  int64_t n = s.begin / (w.p * w.q), p = s.begin / w.q % w.p, q = s.begin % w.q;
  for (int64_t i = 0; i < steps; ++p, q = 0) {  // rows of the result
    if (p == w.p) p = 0, ++n;
    const T* rows[kColumns];
    for (int64_t r = 0; r < count; ++r) {
      const int64_t y = p * w.stride[0] - w.pad[0] + runs[r].row * w.dilation[0];
      rows[r] = y >= 0 && y < w.h ? images + (n * w.h + y) * of_row : nullptr;
    }
    const int64_t end = least(steps, i + w.q - q);
    for (int64_t at = q * of_step - w.pad[1] * s.channels; i < end; ++i, at += of_step) {
      float* column = to + i * kPitch;
      for (int64_t r = 0; r < count; column += runs[r++].columns) {
        const int64_t x = at + runs[r].offset, length = runs[r].columns;
        if (rows[r] == nullptr) {
          clear_run(length, column);
        } else if (x < 0 || x + length > of_row) {
          clip_run(rows[r], of_row, x, length, column);
        } else {
          for (int64_t c = 0; c < length; c += kOfLine)
            __builtin_prefetch(rows[r] + x + kAhead * of_step + c);
          copy_run(rows[r] + x, length, column);
        }
      }
      clear_run(behind, column);
    }
  }
}

// to [kBlockRows][kPanel] of a pitch = (itself if add) + sums.
void store_block(const float* sums, bool add, float* to, int64_t pitch, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t half = 0; half < kPanel; half += kLanes) {
      const Vec sum = load_vec(sums + i * kPanel + half);
      float* const at = to + i * pitch + half;
      store_vec(at, add ? load_vec(at) + sum : sum);
    }
  }
}

// Each block of pixels is summed up by itself: many small sums round less than one of all pixels.
void add_columns(const PixelSum& s, int64_t first, const float* blocks, float* panels) {
  const int64_t steps = s.end - s.begin, columns = least(kColumns, s.columns - first);
  s.element == kElementF32 ? fill_columns<float>(s, first, columns, panels)
                           : fill_columns<Bf16>(s, first, columns, panels);
  alignas(64) float sums[kBlockRows * kPanel];
  for (int64_t c = 0; c < columns; c += kPanel) {
    const float* block = blocks;
    for (int64_t k = 0; k < s.filters; k += kBlockRows, block += kBlock) {
      const int64_t rows = least(kBlockRows, s.filters - k);
      float* const dw = s.dw + k * s.pitch + first + c;
      for (int64_t i = 0; i < rows; ++i) __builtin_prefetch(dw + i * s.pitch, 1);
      block_of<false, false>(rows, block, kBlockRows, panels + c, kPitch, steps, sums, kPanel);
      store_block(sums, s.add, dw, s.pitch, rows);
    }
  }
}

}  // namespace

extern const PixelSumKernels kPixelSum;
const PixelSumKernels kPixelSum = {
    kPixels, kBlockRows, kPanel, kColumns, (kPixels + 1) * kPitch, fill_blocks, add_columns};

}  // namespace assay::cpu::ASSAY_ISA
