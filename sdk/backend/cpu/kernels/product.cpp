// Matrix products of f32: rows where they stand times panels of columns, each step's side by side.
#include "sdk/backend/cpu/kernels/attention_head.h"
#include "sdk/backend/cpu/kernels/panel_finish.h"
#include "sdk/backend/cpu/kernels/products.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Steps of a panel that stay in the first-level cache beside those of a block's rows, and rows
// whose steps stay in the second-level one while panels go by.
constexpr int64_t kStepsAtOnce = 256, kRowsAtOnce = 132;
constexpr int64_t kLine = 64;

int64_t panel_bytes(int64_t steps) { return steps * kPanel * 4; }
int64_t standing(int64_t rows, int64_t) { return (rows + kBlockRows - 1) / kBlockRows; }

// Columns [kLanes] of steps [kLanes], which lie side by side.
void turn_columns(const float* from, int64_t pitch, int64_t columns, int64_t steps, float* to) {
  if (columns >= kLanes && steps >= kLanes) return turn_square(from, pitch, to, kPanel);
  for (int64_t k = 0; k < least(kLanes, steps); ++k)
    for (int64_t c = 0; c < kLanes; ++c) to[k * kPanel + c] = c < columns ? from[c * pitch + k] : 0;
}

// Columns behind the last are zero.
void fill_panel(const PanelOperand& x, bool, int64_t panel, void* to) {
  auto* y = static_cast<float*>(to);
  const int64_t first = panel * kPanel, columns = least(kPanel, x.lines - first);
  const float* from = static_cast<const float*>(x.data) + first * (x.along ? x.pitch : 1);
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

// sums [rows][kPanel] += left [rows][steps] right [steps][kPanel], or = if these are the first
// steps. On the way the panel's next steps, or the next panel's first, are asked for.
void multiply(const float* left, int64_t pitch, int64_t rows, const float* right, int64_t steps,
              bool first, float* sums) {
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const int64_t share = (steps * kPanel * 4 / blocks + kLine - 1) / kLine * kLine;
  const auto* next = reinterpret_cast<const char*>(right + steps * kPanel);
  for_blocks(rows, [&](int64_t row, int64_t count) {
    for (const char* const end = next + share; next < end; next += kLine)
      __builtin_prefetch(next, 0, 2);
    const float* from = left + row * pitch;
    first ? block_of<true, false>(count, from, pitch, right, kPanel, steps, sums + row * kPanel,
                                  kPanel)
          : block_of<true, true>(count, from, pitch, right, kPanel, steps, sums + row * kPanel,
                                 kPanel);
  });
}

void run(const PanelProduct& p, int64_t left_begin, int64_t left_end, int64_t right_begin,
         int64_t right_end) {
  const auto *left = static_cast<const float*>(p.left),
             *right = static_cast<const float*>(p.right_panels);
  const Finish put_block = finish_of<float, store_lanes<float>, kPanel>(p.activation);
  alignas(64) float sums[kRowsAtOnce * kPanel];
  const int64_t end = least(left_end * kBlockRows, p.rows);
  for (int64_t row = left_begin * kBlockRows; row < end; row += kRowsAtOnce) {
    const int64_t rows = least(kRowsAtOnce, end - row);
    for (int64_t j = right_begin; j < right_end; ++j) {
      const float* panel = right + j * p.steps * kPanel;
      for (int64_t k = 0; k < p.steps; k += kStepsAtOnce)
        multiply(left + row * p.left_pitch + k, p.left_pitch, rows, panel + k * kPanel,
                 least(kStepsAtOnce, p.steps - k), k == 0, sums);
      put_block(p, sums, row, rows, j * kPanel, least(kPanel, p.columns - j * kPanel));
    }
  }
}

}  // namespace

extern const PanelProductKernels kProduct;
const PanelProductKernels kProduct = {kBlockRows, kPanel, panel_bytes, standing, fill_panel, run};

}  // namespace assay::cpu::ASSAY_ISA
