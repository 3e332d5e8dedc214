// Attention of one head over one sequence in bf16, on processors with AMX: as attention.cpp, but
// products take bf16 and sum in f32. Weights are rounded to bf16 for the product with the values,
// and in the gradient with what the scores' gradient is; sums over keys, maxima and logarithms are
// f32.
//
// A tile is a register of 16 rows of 64 bytes. Operands are brought into the two forms that tiles
// take, with zeros up to whole tiles:
//   rows   bf16 [n][width], a row per token: the left operand
//   pairs  uint32 [steps / 2][n]: two steps of the sum side by side, the right operand
#include <string.h>

#include "sdk/backend/cpu/kernels/attention_head.h"
#include "sdk/backend/cpu/kernels/tiles_amx.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Queries of a block. A product over queries (the gradient of keys and values) wants many steps.
constexpr int64_t kForwardRows = 32, kBackwardRows = 128;

// Columns of scores; no power of two, or their rows would compete for the same places of a cache.
int64_t scores_pitch(int64_t keys) { return whole(keys, kSteps) + kTile; }
int64_t weights_pitch(int64_t keys) { return whole(keys, kSteps) + kSteps; }

// sums [kTile * (kRows2 ? 2 : 1)][kTile * (kColumns2 ? 2 : 1)] of left rows and right pairs;
// pitches in elements.
template <bool kRows2, bool kColumns2>
void block(const Bf16* left, int64_t left_pitch, const uint32_t* right, int64_t right_pitch,
           int64_t steps, bool add, float* sums, int64_t sums_pitch) {
  const int64_t left_bytes = left_pitch * 2, right_bytes = right_pitch * 4;
  const int64_t sums_bytes = sums_pitch * 4;
  float* below = sums + kTile * sums_pitch;
  __asm__ volatile("" ::: "memory");  // gcc's tile loads do not tell it that they read memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (add) {
    _tile_loadd(0, sums, sums_bytes);
    if (kColumns2) _tile_loadd(1, sums + kTile, sums_bytes);
    if (kRows2) _tile_loadd(2, below, sums_bytes);
    if (kRows2 && kColumns2) _tile_loadd(3, below + kTile, sums_bytes);
  }
  for (int64_t step = 0; step < steps; step += kSteps) {
    _tile_loadd(4, left + step, left_bytes);
    _tile_loadd(6, right + step / 2 * right_pitch, right_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (kColumns2) {
      _tile_loadd(7, right + step / 2 * right_pitch + kTile, right_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kRows2) {
      _tile_loadd(5, left + kTile * left_pitch + step, left_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (kRows2 && kColumns2) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, sums_bytes);
  if (kColumns2) _tile_stored(1, sums + kTile, sums_bytes);
  if (kRows2) _tile_stored(2, below, sums_bytes);
  if (kRows2 && kColumns2) _tile_stored(3, below + kTile, sums_bytes);
}

// sums [rows][columns] = (themselves if add, +) left rows [rows][steps] times right pairs
// [steps / 2][columns]; rows and columns are whole tiles, steps whole kSteps.
void product(const Bf16* left, int64_t left_pitch, int64_t rows, const uint32_t* right,
             int64_t columns, int64_t right_pitch, int64_t steps, bool add, float* sums,
             int64_t sums_pitch) {
  for (int64_t c = 0; c < columns; c += 2 * kTile)
    for (int64_t r = 0; r < rows; r += 2 * kTile) {
      const bool rows2 = r + kTile < rows, columns2 = c + kTile < columns;
      const auto run = rows2 ? (columns2 ? block<true, true> : block<true, false>)
                             : (columns2 ? block<false, true> : block<false, false>);
      run(left + r * left_pitch, left_pitch, right + c, right_pitch, steps, add,
          sums + r * sums_pitch + c, sums_pitch);
    }
}

// to [whole tiles of rows][width] = from [rows][size], zeros elsewhere.
void load_rows(const Bf16* from, int64_t pitch, int64_t rows, int64_t size, Bf16* to,
               int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    ask_for_row(from + (r + kRowsAhead) * pitch, size);
    memcpy(to + r * width, from + r * pitch, static_cast<size_t>(size) * 2);
    memset(to + r * width + size, 0, static_cast<size_t>(width - size) * 2);
  }
  memset(to + rows * width, 0, static_cast<size_t>((whole(rows, kSteps) - rows) * width) * 2);
}

// Pairs of what stands beside each other in a row: to [width / 2][n] of rows [n][width].
void pairs_along(const Bf16* rows, int64_t n, int64_t width, uint32_t* to) {
  const auto* from = reinterpret_cast<const float*>(rows);  // only moved
  auto* out = reinterpret_cast<float*>(to);
  for (int64_t r = 0; r < n; r += kLanes)
    for (int64_t c = 0; c < width / 2; c += kLanes)
      turn_square(from + r * (width / 2) + c, width / 2, out + c * n + r, n);
}

// Pairs of what stands one below the other: to [n / 2][width] of rows [n][width].
void pairs_across(const Bf16* rows, int64_t n, int64_t width, uint32_t* to) {
  for (int64_t r = 0; r < n; r += 2) {
    const Bf16 *low = rows + r * width, *high = low + width;
    for (int64_t c = 0; c < width; ++c)
      to[r / 2 * width + c] =
          static_cast<uint32_t>(low[c].bits) | static_cast<uint32_t>(high[c].bits) << 16;
  }
}

// to [width][n] = rows [n][width], turned.
void turn(const Bf16* rows, int64_t n, int64_t width, Bf16* to) {
  for (int64_t r = 0; r < n; r += kLanes)
    for (int64_t c = 0; c < width; c += kLanes)
      turn_square(rows + r * width + c, width, to + c * n + r, n);
}

// to [rows][size] = factor * from [size][n], turned; from has whole tiles.
void store_turned(const float* from, int64_t n, int64_t size, int64_t rows, float factor, Bf16* to,
                  int64_t pitch) {
  float square[kTile * kTile];
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < size; c += kTile) {
      turn_square(from + c * n + r, n, square, kTile);
      for (int64_t i = 0; i < least(kTile, rows - r); ++i)
        store_lanes(to + (r + i) * pitch + c, load_vec(square + i * kTile) * factor, size - c);
    }
}

// to [n] = x, rounded; n is whole registers.
void round_row(const float* x, int64_t n, Bf16* to) {
  for (int64_t i = 0; i < n; i += kLanes)
    *reinterpret_cast<LooseHalfBits*>(to + i) = half_of(load_vec(x + i));
}

// The same of two rows, as pairs.
void round_pairs(const float* low, const float* high, int64_t n, uint32_t* to) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const VecBits even = widened(half_of(load_vec(low + i)));
    const VecBits odd = widened(half_of(load_vec(high + i)));
    store_vec(reinterpret_cast<float*>(to + i), reinterpret_cast<Vec>(even | odd << 16));
  }
}

void clear(float* x, int64_t begin, int64_t end) {
  memset(x + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
}

// x = e^(scale * x - largest), zeros from n on up to whole registers; largest is of all
// scale * x. NaN anywhere makes the sum NaN.
RowSums exponentials_of(float* x, int64_t n, float scale) {
  float largest = -__builtin_inff();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = scale * x[i] > largest ? scale * x[i] : largest;
  Vec sums{};
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto real = static_cast<__mmask16>(n - i < kLanes ? (1u << (n - i)) - 1 : 0xffff);
    const Vec e = _mm512_maskz_mov_ps(real, exponential(load_vec(x + i) * scale - largest));
    store_vec(x + i, e);
    sums += e;
  }
  return {largest, _mm512_reduce_add_ps(sums)};
}

__m512i words_of(const uint32_t* words) {
  return reinterpret_cast<__m512i>(load_vec(reinterpret_cast<const float*>(words)));
}

// As row_gradient of attention.cpp, of scores that are still to be multiplied by the scale; zeros
// from n on up to whole registers.
void row_gradient(const AttentionShape& shape, int64_t token, int64_t head, int64_t n,
                  float logsumexp, float delta, float* scores, float* dp) {
  const auto part = [&](int64_t at, __mmask16 kept, float keep) {
    const auto real = static_cast<__mmask16>(n - at < kLanes ? (1u << (n - at)) - 1 : 0xffff);
    const Vec p =
        _mm512_maskz_mov_ps(real, exponential(load_vec(scores + at) * shape.scale - logsumexp));
    const Vec kept_p = _mm512_maskz_mov_ps(kept, p * keep);
    const Vec kept_dp = _mm512_maskz_mov_ps(kept, load_vec(dp + at) * keep);
    store_vec(scores + at, kept_p);
    store_vec(dp + at, _mm512_maskz_mov_ps(real, p * (kept_dp - delta)));
  };
  if (shape.dropout == nullptr) {
    for (int64_t i = 0; i < n; i += kLanes) part(i, 0xffff, 1);
    return;
  }
  const __m512i drop_below = _mm512_set1_epi32(static_cast<int32_t>(shape.dropout->drop_below));
  with_words(shape, token, head, n, [&](int64_t at, int64_t count, const uint32_t* words) {
    for (int64_t i = 0; i < count; i += kLanes)
      part(at + i, _mm512_cmpge_epu32_mask(words_of(words + i), drop_below), shape.dropout->scale);
  });
}

// Cuts a thread's work space; only the size of what was taken matters where `from` is null.
struct Space {
  float* from;
  int64_t taken = 0;

  float* floats(int64_t n) {
    float* const at = from == nullptr ? nullptr : from + taken;
    taken += whole(n, kTile);
    return at;
  }
  uint32_t* pairs(int64_t n) { return reinterpret_cast<uint32_t*>(floats(n)); }
  Bf16* halves(int64_t n) { return reinterpret_cast<Bf16*>(floats(n / 2)); }
};

// ---- Forward ----

struct ForwardSpace {
  Space space;
  Bf16* rows;        // of keys, then of values [keys][width]
  uint32_t* keys;    // pairs [width / 2][keys]
  uint32_t* values;  // pairs [keys / 2][width]
  Bf16* queries;     // rows [kForwardRows][width]
  Bf16* weights;     // rows [kForwardRows][weights_pitch]
  float* scores;     // [kForwardRows][scores_pitch]
  float* out;        // [kForwardRows][width]

  ForwardSpace(float* from, int64_t width, int64_t n)
      : space{from},
        rows(space.halves(whole(n, kSteps) * width)),
        keys(space.pairs(whole(n, kSteps) * width / 2)),
        values(space.pairs(whole(n, kSteps) * width / 2)),
        queries(space.halves(kForwardRows * width)),
        weights(space.halves(kForwardRows * weights_pitch(n))),
        scores(space.floats(kForwardRows * scores_pitch(n))),
        out(space.floats(kForwardRows * width)) {}
};

int64_t forward_work(int64_t size, int64_t longest) {
  return ForwardSpace(nullptr, whole(size, kSteps), longest).space.taken;
}

void forward(const AttentionArgs& args, int64_t head, int64_t begin, int64_t end, float* work) {
  const AttentionShape& s = args.shape;
  const int64_t n = end - begin, size = s.size, width = whole(size, kSteps);
  const int64_t keys = whole(n, kSteps), pitch = scores_pitch(n), weights_at = weights_pitch(n);
  const Head in(s, static_cast<const Bf16*>(args.qkv), head, begin);
  const ForwardSpace at(work, width, n);
  const TileState tiles;
  load_rows(in.k, in.pitch, n, size, at.rows, width);
  pairs_along(at.rows, keys, width, at.keys);
  load_rows(in.v, in.pitch, n, size, at.rows, width);
  pairs_across(at.rows, keys, width, at.values);
  for (int64_t first = 0; first < n; first += kForwardRows) {
    const int64_t rows = least(kForwardRows, n - first), whole_rows = whole(rows, kTile);
    load_rows(in.q + first * in.pitch, in.pitch, rows, size, at.queries, width);
    product(at.queries, width, whole_rows, at.keys, keys, keys, width, false, at.scores, pitch);
    Bf16* context =
        static_cast<Bf16*>(args.context) + (begin + first) * s.heads * size + head * size;
    float factor[kForwardRows];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t token = begin + first + r;
      float* row = at.scores + r * pitch;
      const RowSums sums = exponentials_of(row, n, s.scale);
      args.logsumexp[token * s.heads + head] =
          sums.largest + static_cast<float>(__builtin_log(static_cast<double>(sums.exponentials)));
      factor[r] = 1.0f / sums.exponentials;
      if (s.dropout != nullptr) {
        factor[r] *= s.dropout->scale;
        drop_weights(s, token, head, n, row);
      }
      clear(row, n, keys);
      round_row(row, keys, at.weights + r * weights_at);
    }
    product(at.weights, weights_at, whole_rows, at.values, width, width, keys, false, at.out,
            width);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < size; ++c)
        store(context[r * s.heads * size + c], factor[r] * at.out[r * width + c]);
  }
}

// ---- Backward ----

struct BackwardSpace {
  Space space;
  Bf16* rows;                             // of keys, then of values [keys][width]
  uint32_t *keys, *values;                // pairs [width / 2][keys]
  uint32_t* key_rows;                     // pairs [keys / 2][width]
  float *dkeys, *dvalues;                 // [width][keys], turned
  Bf16 *queries, *dout;                   // rows [kBackwardRows][width]
  Bf16 *turned_queries, *turned_dout;     // [width][kBackwardRows]
  float *weights, *dscores;               // [kBackwardRows][scores_pitch]
  uint32_t *weight_pairs, *dscore_pairs;  // [kBackwardRows / 2][keys]
  Bf16* dscore_rows;                      // [kBackwardRows][weights_pitch]
  float* dqueries;                        // [kBackwardRows][width]

  BackwardSpace(float* from, int64_t width, int64_t n)
      : space{from},
        rows(space.halves(whole(n, kSteps) * width)),
        keys(space.pairs(whole(n, kSteps) * width / 2)),
        values(space.pairs(whole(n, kSteps) * width / 2)),
        key_rows(space.pairs(whole(n, kSteps) * width / 2)),
        dkeys(space.floats(whole(n, kSteps) * width)),
        dvalues(space.floats(whole(n, kSteps) * width)),
        queries(space.halves(kBackwardRows * width)),
        dout(space.halves(kBackwardRows * width)),
        turned_queries(space.halves(kBackwardRows * width)),
        turned_dout(space.halves(kBackwardRows * width)),
        weights(space.floats(kBackwardRows * scores_pitch(n))),
        dscores(space.floats(kBackwardRows * scores_pitch(n))),
        weight_pairs(space.pairs(kBackwardRows / 2 * whole(n, kSteps))),
        dscore_pairs(space.pairs(kBackwardRows / 2 * whole(n, kSteps))),
        dscore_rows(space.halves(kBackwardRows * weights_pitch(n))),
        dqueries(space.floats(kBackwardRows * width)) {}
};

int64_t backward_work(int64_t size, int64_t longest) {
  return BackwardSpace(nullptr, whole(size, kSteps), longest).space.taken;
}

void backward(const AttentionGradArgs& args, int64_t head, int64_t begin, int64_t end,
              float* work) {
  const AttentionShape& s = args.shape;
  const int64_t n = end - begin, size = s.size, width = whole(size, kSteps);
  const int64_t keys = whole(n, kSteps), pitch = scores_pitch(n), rows_at = weights_pitch(n);
  const int64_t row_elems = s.heads * size;
  const Head in(s, static_cast<const Bf16*>(args.qkv), head, begin);
  const Head gradient(s, static_cast<Bf16*>(args.dqkv), head, begin);
  const BackwardSpace at(work, width, n);
  const TileState tiles;
  load_rows(in.v, in.pitch, n, size, at.rows, width);
  pairs_along(at.rows, keys, width, at.values);
  load_rows(in.k, in.pitch, n, size, at.rows, width);
  pairs_along(at.rows, keys, width, at.keys);
  pairs_across(at.rows, keys, width, at.key_rows);
  for (int64_t first = 0; first < n; first += kBackwardRows) {
    const int64_t rows = least(kBackwardRows, n - first), steps = whole(rows, kSteps);
    const int64_t row = (begin + first) * row_elems + head * size;
    const Bf16* context = static_cast<const Bf16*>(args.context) + row;
    load_rows(in.q + first * in.pitch, in.pitch, rows, size, at.queries, width);
    load_rows(static_cast<const Bf16*>(args.dcontext) + row, row_elems, rows, size, at.dout, width);
    turn(at.queries, steps, width, at.turned_queries);
    turn(at.dout, steps, width, at.turned_dout);
    product(at.queries, width, steps, at.keys, keys, keys, width, false, at.weights, pitch);
    product(at.dout, width, steps, at.values, keys, keys, width, false, at.dscores, pitch);
    for (int64_t r = 0; r < steps; ++r) {
      float *weights = at.weights + r * pitch, *dscores = at.dscores + r * pitch;
      if (r < rows) {
        float delta = 0;
#pragma omp simd reduction(+ : delta)
        for (int64_t c = 0; c < size; ++c)
          delta += load(at.dout[r * width + c]) * load(context[r * row_elems + c]);
        const int64_t token = begin + first + r;
        row_gradient(s, token, head, n, args.logsumexp[token * s.heads + head], delta, weights,
                     dscores);
      }
      clear(weights, r < rows ? n : 0, keys);
      clear(dscores, r < rows ? n : 0, keys);
      round_row(dscores, keys, at.dscore_rows + r * rows_at);
      if (r % 2 == 0) continue;
      round_pairs(weights - pitch, weights, keys, at.weight_pairs + r / 2 * keys);
      round_pairs(dscores - pitch, dscores, keys, at.dscore_pairs + r / 2 * keys);
    }
    product(at.turned_dout, steps, width, at.weight_pairs, keys, keys, steps, first > 0, at.dvalues,
            keys);
    product(at.turned_queries, steps, width, at.dscore_pairs, keys, keys, steps, first > 0,
            at.dkeys, keys);
    product(at.dscore_rows, rows_at, steps, at.key_rows, width, width, keys, false, at.dqueries,
            width);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < size; ++c)
        store(gradient.q[(first + r) * in.pitch + c], s.scale * at.dqueries[r * width + c]);
  }
  store_turned(at.dkeys, keys, size, n, s.scale, gradient.k, in.pitch);
  store_turned(at.dvalues, keys, size, n, 1.0f, gradient.v, in.pitch);
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {
    forward_work, backward_work, {nullptr, forward}, {nullptr, backward}};

}  // namespace assay::cpu::ASSAY_ISA
