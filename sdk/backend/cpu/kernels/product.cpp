// Matrix products of f32, and convolutions as such: rows, or windows, where they stand times panels
// of columns, each step's side by side. Columns may come from bf16, and results become it.
#include "sdk/backend/cpu/kernels/attention_head.h"
#include "sdk/backend/cpu/kernels/panel_finish.h"
#include "sdk/backend/cpu/kernels/products.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Steps of a panel that stay in the first-level cache beside those of a block's rows, and rows
// whose steps stay in the second-level one while panels go by.
constexpr int64_t kStepsAtOnce = 256, kBlocksAtOnce = kLanes == 16 ? 4 : 10;
constexpr int64_t kRowsAtOnce = kBlocksAtOnce * kBlockRows;

int64_t panel_bytes(int64_t steps) { return steps * kPanel * 4; }
int64_t standing(int64_t rows, int64_t) { return (rows + kBlockRows - 1) / kBlockRows; }

// Columns [kLanes] of steps [kLanes], which lie side by side.
template <class T>
void turn_columns(const T* from, int64_t pitch, int64_t columns, int64_t steps, float* to) {
  if (columns >= kLanes && steps >= kLanes) return turn_square(from, pitch, to, kPanel);
  for (int64_t k = 0; k < least(kLanes, steps); ++k)
    for (int64_t c = 0; c < kLanes; ++c)
      to[k * kPanel + c] = c < columns ? load(from[c * pitch + k]) : 0;
}

// Columns behind the last are zero.
template <class T>
void fill_panel_of(const PanelOperand& x, int64_t panel, float* y) {
  const int64_t first = panel * kPanel, columns = least(kPanel, x.lines - first);
  const T* from = static_cast<const T*>(x.data) + first * (x.along ? x.pitch : 1);
  for (int64_t half = 0; half < kPanel; half += kLanes) {
    const int64_t n = columns - half;
    if (x.along) {
      for (int64_t k = 0; k < x.steps; k += kLanes)
        turn_columns(from + half * x.pitch + k, x.pitch, n, x.steps - k, y + k * kPanel + half);
      continue;
    }
    for (int64_t k = 0; k < x.steps; ++k)
      store_vec(y + k * kPanel + half, n > 0 ? load_lanes(from + k * x.pitch + half, n) : Vec{});
  }
}

void fill_panel(const PanelOperand& x, bool, int64_t panel, void* to) {
  auto* y = static_cast<float*>(to);
  x.element == kElementF32 ? fill_panel_of<float>(x, panel, y) : fill_panel_of<Bf16>(x, panel, y);
}

// What a tap of the window covers, for some rows: [tap][row], a pixel's channels each. And where
// those rows of y begin.
struct Pixels {
  const float* at[kMostWindowTaps][kRowsAtOnce];
  int64_t y[kRowsAtOnce];
};

// What windows cover outside of images.
alignas(64) const float kZeros[kMostWindowChannels] = {};

void find_pixels(const PanelProduct& product, int64_t first, int64_t rows, Pixels& pixels) {
  const PanelWindows w = product.windows;
  const auto* left = static_cast<const float*>(product.left);
  const int64_t pitch = product.left_pitch;
  int64_t n = first / (w.p * w.q), p = first / w.q % w.p, q = first % w.q;
  for (int64_t i = 0; i < rows; ++i) {
    const float** at = &pixels.at[0][i];
    pixels.y[i] = n * product.image_pitch + p * product.row_pitch + q * product.pixel_pitch;
    for (int64_t r = 0; r < w.r; ++r) {
      const int64_t y = p * w.stride[0] - w.pad[0] + r * w.dilation[0];
      for (int64_t s = 0; s < w.s; ++s, at += kRowsAtOnce) {
        const int64_t x = q * w.stride[1] - w.pad[1] + s * w.dilation[1];
        const bool inside = y >= 0 && y < w.h && x >= 0 && x < w.w;
        *at = inside ? left + ((n * w.h + y) * w.w + x) * pitch : kZeros;
      }
    }
    if (++q < w.q) continue;
    q = 0;
    if (++p < w.p) continue;
    p = 0, ++n;
  }
}

// Some taps with some of their channels.
struct Piece {
  int64_t tap, taps, channel, channels;
  int64_t steps() const { return taps * channels; }
};

// What a block asks for at every kUnrolled steps: lines of memory `distance` elements behind those
// of the panel. Three blocks ask for all.
struct Ahead {
  static constexpr int64_t kOfLine = kLine / 4, kLines = kUnrolled * kPanel / kOfLine;
  static constexpr int64_t kAsked = (kLines + 2) / 3;
  int64_t distance;

  void operator()(const float* b) const {
    for (int64_t i = 0; i < kAsked; ++i) __builtin_prefetch(b + distance + i * kOfLine, 0, 2);
  }
  void next_block() { distance += kAsked * kOfLine; }
};

// to [kRows][kPanel] = (kAdd: itself +) pixels [kRows][steps] right [steps][kPanel]. Becomes
// no part of its caller, which leaves too few registers.
template <int kRows, bool kAdd>
[[gnu::noinline]] void multiply_rows(const Pixels& pixels, int64_t row, const Piece& piece,
                                     const float* right, const Ahead& ahead, float* to) {
  Sums<kRows> sums = sums_at<kRows, kAdd>(to, kPanel);
  for (int64_t tap = piece.tap; tap < piece.tap + piece.taps; ++tap) {
    const float* from[kRows];
    for (int i = 0; i < kRows; ++i) from[i] = pixels.at[tap][row + i] + piece.channel;
    const auto at = [&](int i, int64_t step) { return from[i][step]; };
    add_products(sums, at, right, kPanel, piece.channels, ahead);
    right += piece.channels * kPanel;
  }
  sums.for_each([&](int i, Vec& a, Vec& b) {
    store_vec(to + i * kPanel, a), store_vec(to + i * kPanel + kLanes, b);
  });
}

// The pieces of a window, each about kStepsAtOnce steps.
template <class Visit>
void for_pieces(int64_t taps, int64_t channels, const Visit& visit) {
  const int64_t cuts = (channels + kStepsAtOnce - 1) / kStepsAtOnce;
  const int64_t most = ((channels + cuts - 1) / cuts + 7) / 8 * 8;
  const int64_t taps_at_once = channels < kStepsAtOnce ? kStepsAtOnce / channels : 1;
  for (int64_t tap = 0; tap < taps; tap += taps_at_once)
    for (int64_t c = 0; c < channels; c += most)
      visit(Piece{tap, least(taps_at_once, taps - tap), c, least(most, channels - c)});
}

// Some rows times one panel.
void multiply_panel(const PanelProduct& p, const Pixels& pixels, int64_t rows, int64_t column) {
  const int64_t taps = p.windows.r * p.windows.s, columns = least(kPanel, p.columns - column);
  const auto put_block = p.element == kElementF32 ? finish_block<float, store_lanes<float>, kPanel>
                                                  : finish_block<Bf16, store_lanes<Bf16>, kPanel>;
  alignas(64) float sums[kRowsAtOnce * kPanel];
  const float* panel = static_cast<const float*>(p.right_panels) + column * p.steps;
  const float* const end = panel + p.steps * kPanel;
  for_pieces(taps, p.steps / taps, [&](const Piece& piece) {
    const float* const following = panel + piece.steps() * kPanel;
    const bool first = piece.tap == 0 && piece.channel == 0, last = following == end;
    Ahead ahead{following - panel};  // the next piece
    for_blocks(rows, [&](int64_t i, int64_t count) {
      if (last) ask_for_block(p, pixels.y + i, count, column, columns);
      float* const to = sums + i * kPanel;
      with_rows(count, [&]<int kRows>() {
        first ? multiply_rows<kRows, false>(pixels, i, piece, panel, ahead, to)
              : multiply_rows<kRows, true>(pixels, i, piece, panel, ahead, to);
      });
      ahead.next_block();
      if (last) put_block(p, to, pixels.y + i, count, column, columns);
    });
    panel = following;
  });
}

void run(const PanelProduct& p, int64_t left_begin, int64_t left_end, int64_t right_begin,
         int64_t right_end) {
  const int64_t groups = (left_end - left_begin + kBlocksAtOnce - 1) / kBlocksAtOnce;
  Pixels pixels;
  for (int64_t i = 0, block = left_begin; i < groups; ++i) {
    const int64_t blocks = (left_end - block + groups - i - 1) / (groups - i);
    const int64_t row = block * kBlockRows, rows = least(blocks * kBlockRows, p.rows - row);
    find_pixels(p, row, rows, pixels);
    for (int64_t j = right_begin; j < right_end; ++j) multiply_panel(p, pixels, rows, j * kPanel);
    block += blocks;
  }
}

}  // namespace

extern const PanelProductKernels kProduct;
const PanelProductKernels kProduct = {kElementF32, kBlockRows, kPanel, panel_bytes,
                                      standing,    fill_panel, run};

}  // namespace assay::cpu::ASSAY_ISA
