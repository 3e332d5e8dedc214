// Tile registers of AMX, as the kernels that use them set them up: a tile is 16 rows of 64 bytes.
#pragma once

#include <immintrin.h>

#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kTile = 16;   // rows of a tile, and columns of a tile of sums
constexpr int64_t kSteps = 32;  // of a sum that one tile product takes

// As the processor reads it: eight tiles of the largest size.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};
constexpr TileConfig kTileConfig;

// Tiles are the processor's state of a thread: set up here, given up at the end.
class TileState {
 public:
  TileState() { _tile_loadconfig(&kTileConfig); }
  TileState(const TileState&) = delete;
  TileState& operator=(const TileState&) = delete;
  ~TileState() { _tile_release(); }
};

constexpr int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// To nearest even, by the processor's instruction.
inline HalfBits half_of(Vec x) {
  return reinterpret_cast<HalfBits>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
}

}  // namespace assay::cpu::ASSAY_ISA
