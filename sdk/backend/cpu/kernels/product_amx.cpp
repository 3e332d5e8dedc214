// Matrix products of bf16 on AMX: panels of 32 rows times panels of 32 columns, four tiles of sums
// that stay in registers through all steps.
//
// A panel is [steps / kSteps][2 tiles][16][64 bytes], so that tiles are read in one piece. A tile
// of the left operand has a row of it in each of its rows, kSteps steps of 2 bytes; a tile of the
// right one has two steps side by side in each of its rows, for 16 columns.
#include "sdk/backend/cpu/kernels/attention_head.h"
#include "sdk/backend/cpu/kernels/panel_finish.h"
#include "sdk/backend/cpu/kernels/tiles_amx.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kPanel = 2 * kTile;
constexpr int64_t kTileBytes = 1024;

// ---- Panels ----

using Tile = uint32_t[kTile][kTile];  // pairs of bf16

// Lines of which a tile has one in each row: `from` is the first's, at least one.
void copy_lines(const Bf16* from, int64_t pitch, int64_t lines, int64_t steps, Tile to) {
  for (int64_t i = 0; i < kTile; ++i) {
    if (i < lines && steps >= kSteps) {
      __builtin_prefetch(from + i * pitch + 8 * kSteps);
      store_vec(reinterpret_cast<float*>(to[i]),
                load_vec(reinterpret_cast<const float*>(from + i * pitch)));  // only moved
      continue;
    }
    auto* row = reinterpret_cast<uint16_t*>(to[i]);
    for (int64_t k = 0; k < kSteps; ++k)
      row[k] = i < lines && k < steps ? from[i * pitch + k].bits : uint16_t{0};
  }
}

VecBits pairs_of(const Bf16* low, const Bf16* high, int64_t n) {
  const auto bits = [n](const Bf16* x) {
    return reinterpret_cast<VecBits>(load_lanes(x, n)) >> 16;
  };
  return high == nullptr ? bits(low) : bits(low) | bits(high) << 16;
}

// Steps of which a tile has two in each row, for `lines` lines side by side.
void pair_steps(const Bf16* from, int64_t pitch, int64_t lines, int64_t steps, Tile to) {
  for (int64_t k = 0; k < kTile; ++k) {
    const Bf16* low = from + 2 * k * pitch;
    __builtin_prefetch(low + 2 * kSteps * pitch);
    __builtin_prefetch(low + (2 * kSteps + 1) * pitch);
    VecBits pairs{};
    if (2 * k < steps) pairs = pairs_of(low, 2 * k + 1 < steps ? low + pitch : nullptr, lines);
    store_vec(reinterpret_cast<float*>(to[k]), reinterpret_cast<Vec>(pairs));
  }
}

// Both forms of a tile are those of the other operand, turned.
void fill_panel(const PanelOperand& x, bool right, int64_t panel, void* to) {
  auto* tile = static_cast<Tile*>(to);
  const auto* data = static_cast<const Bf16*>(x.data);
  for (int64_t step = 0; step < x.steps; step += kSteps) {
    for (int64_t half = 0; half < 2; ++half, ++tile) {
      const int64_t line = panel * kPanel + half * kTile;
      const int64_t lines = least(kTile, x.lines - line), steps = least(kSteps, x.steps - step);
      if (lines <= 0) {
        __builtin_memset(*tile, 0, sizeof(Tile));
        continue;
      }
      const Bf16* from = data + (x.along ? line * x.pitch + step : step * x.pitch + line);
      const bool turns = x.along == right;
      alignas(64) Tile other;
      Tile& filled = turns ? other : *tile;
      x.along ? copy_lines(from, x.pitch, lines, steps, filled)
              : pair_steps(from, x.pitch, lines, steps, filled);
      if (turns)
        turn_square(reinterpret_cast<const float*>(other), kTile, reinterpret_cast<float*>(*tile),
                    kTile);
    }
  }
}

// ---- Products ----

int64_t panel_bytes(int64_t steps) { return whole(steps, kSteps) / kSteps * 2 * kTileBytes; }

int64_t standing(int64_t rows, int64_t steps) { return steps % kSteps == 0 ? rows / kPanel : 0; }

// A panel of the left operand: bytes from row to row, tile to tile, and step to step.
struct Rows {
  const char* at;
  int64_t row, tile, step;
};
Rows rows_of(const PanelProduct& p, int64_t panel) {
  const int64_t stand = p.left_pitch != 0 ? standing(p.rows, p.steps) : 0;
  const int64_t pitch = p.left_pitch * 2;
  const auto *left = static_cast<const char*>(p.left),
             *panels = static_cast<const char*>(p.left_panels);
  if (panel < stand) return {left + panel * kPanel * pitch, pitch, kTile * pitch, kLine};
  return {panels + (panel - stand) * panel_bytes(p.steps), kLine, kTileBytes, 2 * kTileBytes};
}

// sums [kPanel][kPanel] of two panels. On the way `per_step` lines from `next` on are asked for.
template <bool kRows2, bool kColumns2>
void multiply(const Rows& left, const char* right, int64_t steps, const char* next,
              int64_t per_step, float* sums) {
  __asm__ volatile("" ::: "memory");  // gcc's tile loads do not tell it that they read memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const char* at = left.at;
  for (int64_t step = 0; step < steps; step += kSteps) {
    _tile_loadd(4, at, left.row);
    _tile_loadd(6, right, kLine);
    _tile_dpbf16ps(0, 4, 6);
    if (kColumns2) {
      _tile_loadd(7, right + kTileBytes, kLine);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kRows2) {
      _tile_loadd(5, at + left.tile, left.row);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (kRows2 && kColumns2) _tile_dpbf16ps(3, 5, 7);
    at += left.step;
    right += 2 * kTileBytes;
    for (int64_t i = 0; i < per_step; ++i, next += kLine) __builtin_prefetch(next, 0, 2);
  }
  constexpr int64_t kPitch = kPanel * 4;
  _tile_stored(0, sums, kPitch);
  if (kColumns2) _tile_stored(1, sums + kTile, kPitch);
  if (kRows2) _tile_stored(2, sums + kTile * kPanel, kPitch);
  if (kRows2 && kColumns2) _tile_stored(3, sums + kTile * kPanel + kTile, kPitch);
}

void store_halves(Bf16* y, Vec v, int64_t n) {
  if (n < kLanes) return store_lanes(y, v, n);
  *reinterpret_cast<LooseHalfBits*>(y) = half_of(v);
}

// Asks for a panel of the left operand.
void ask_for_rows(const Rows& left, int64_t steps) {
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t r = 0; r < kTile; ++r)
      for (int64_t step = 0; step < steps; step += kSteps)
        __builtin_prefetch(left.at + half * left.tile + r * left.row + step / kSteps * left.step, 0,
                           2);
}

// Left panels that stay in the second-level cache while right ones go by, each of which is asked
// for during the products with the one before. A left panel is asked for when it comes first.
void run(const PanelProduct& p, int64_t left_begin, int64_t left_end, int64_t right_begin,
         int64_t right_end) {
  constexpr int64_t kCached = 768 * 1024;
  const int64_t bytes = panel_bytes(p.steps), of_block = most(1, kCached / bytes);
  const auto* right = static_cast<const char*>(p.right_panels);
  const auto put_block = p.element == kElementF32 ? finish_block<float, store_lanes<float>, kPanel>
                                                  : finish_block<Bf16, store_halves, kPanel>;
  alignas(64) float sums[kPanel * kPanel];
  int64_t at[kPanel];  // rows of y
  const TileState tiles;
  for (int64_t first = left_begin; first < left_end; first += of_block) {
    const int64_t end = least(first + of_block, left_end), count = end - first;
    const int64_t per_step = (kPanel + count - 1) / count, per_panel = per_step * bytes / kPanel;
    for (int64_t j = right_begin; j < right_end; ++j) {
      const int64_t column = j * kPanel, columns = least(kPanel, p.columns - column);
      const char* next = right + (j + 1) * bytes;
      for (int64_t i = first; i < end; ++i, next += per_panel) {
        const int64_t row = i * kPanel, rows = least(kPanel, p.rows - row);
        for (int64_t r = 0; r < rows; ++r) at[r] = (row + r) * p.image_pitch;
        ask_for_block(p, at, rows, column, columns);
        if (j == right_begin) ask_for_rows(rows_of(p, i), p.steps);
        const bool rows2 = rows > kTile, columns2 = columns > kTile;
        const auto product = rows2 ? (columns2 ? multiply<true, true> : multiply<true, false>)
                                   : (columns2 ? multiply<false, true> : multiply<false, false>);
        product(rows_of(p, i), right + j * bytes, p.steps, next, per_step, sums);
        put_block(p, sums, at, rows, column, columns);
      }
    }
  }
}

}  // namespace

extern const PanelProductKernels kTileProduct;
const PanelProductKernels kTileProduct = {kElementBf16, kPanel,     kPanel, panel_bytes,
                                          standing,     fill_panel, run};

}  // namespace assay::cpu::ASSAY_ISA
