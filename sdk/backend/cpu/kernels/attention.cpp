// Attention of one head over one sequence, in blocks of queries: scores against all keys fill a
// tile that stays in the second-level cache, so nothing of the size length x length is kept. Data
// of either type is f32 from where it is read to where it is written.
//
// Operands are brought into the forms that products.h reads: "rows" [n][width], a row per token,
// zeros from the head's size on, and "panels" [n / kPanel][size][kPanel], tokens side by side.
#include "sdk/backend/cpu/kernels/attention_head.h"
#include "sdk/backend/cpu/kernels/products.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Queries of a block: few keep forward's tile in the first-level cache, many spare the gradient
// passes over the sums of keys and values.
constexpr int64_t kForwardRows = 48, kBackwardRows = 96;

int64_t whole_panels(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }
// Of a tile; no power of two, or its rows would compete for the same places of a cache.
int64_t tile_pitch(int64_t keys) { return whole_panels(keys) + kLanes; }

// to[r][width] = factor * from[r][size].
template <class T>
void load_rows(const T* from, int64_t pitch, int64_t rows, int64_t size, float factor, float* to,
               int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = from + r * pitch;
    float* y = to + r * width;
    ask_for_row(x + kRowsAhead * pitch, size);
#pragma omp simd
    for (int64_t c = 0; c < size; ++c) y[c] = factor * load(x[c]);
    for (int64_t c = size; c < width; ++c) y[c] = 0;
  }
}

template <class T>
void load_panels(const T* from, int64_t pitch, int64_t rows, int64_t size, float* to) {
  const int64_t squares = size / kLanes * kLanes;
  for (int64_t first = 0; first < rows; first += kPanel, to += size * kPanel) {
    for (int64_t part = 0; part < kPanel; part += kLanes) {
      const int64_t whole = most(0, least(kLanes, rows - first - part));
      const T* x = from + (first + part) * pitch;
      for (int64_t r = 0; r < kLanes; ++r) ask_for_row(x + (kRowsAhead + r) * pitch, size);
      int64_t turned = 0;
      for (; whole == kLanes && turned < squares; turned += kLanes)
        turn_square(x + turned, pitch, to + turned * kPanel + part, kPanel);
      for (int64_t r = 0; r < kLanes; ++r)
        for (int64_t c = turned; c < size; ++c)
          to[c * kPanel + part + r] = r < whole ? load(x[r * pitch + c]) : 0.0f;
    }
  }
}

template <class T>
void store_row(const float* from, int64_t size, float factor, T* to) {
#pragma omp simd
  for (int64_t c = 0; c < size; ++c) store(to[c], factor * from[c]);
}

// tile[row][key] = queries [rows][width] against the panels of keys.
void all_pairs(const float* queries, int64_t width, int64_t rows, const float* keys, int64_t size,
               int64_t n, float* tile, int64_t pitch) {
  for (int64_t first = 0; first < n; first += kPanel)
    product(queries, width, rows, keys + first * size, kPanel, size, tile + first, pitch);
}

// out[row][width] = weights [rows][n] of rows of values.
void weighted_sums(const float* weights, int64_t pitch, int64_t rows, const float* values,
                   int64_t width, int64_t n, float* out) {
  for (int64_t first = 0; first < width; first += kPanel)
    product(weights, pitch, rows, values + first, width, n, out + first, width);
}

// out[key][width] = (itself if add, +) weights [rows][n], turned, of rows of values.
void turned_sums(const float* weights, int64_t pitch, int64_t n, const float* values, int64_t width,
                 int64_t rows, bool add, float* out) {
  for (int64_t first = 0; first < width; first += kPanel)
    outer_product(weights, pitch, n, values + first, width, rows, add, out + first, width);
}

// x = e^(x - largest); NaN anywhere makes the sum NaN.
RowSums exponentials(float* x, int64_t n) {
  float largest = -__builtin_inff();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  Vec sums{};
  for_vectors(n, [&](int64_t i, int64_t count) {
    store_lanes(x + i, exponential(load_lanes(x + i, count) - largest), count);
    sums += load_lanes(x + i, count);
  });
  return {largest, sum_of_lanes(sums)};
}

int64_t forward_work(int64_t size, int64_t longest) {
  const int64_t width = whole_panels(size);
  return whole_panels(longest) * size + longest * width +
         kForwardRows * (2 * width + tile_pitch(longest));
}

template <class T>
void forward(const AttentionArgs& args, int64_t head, int64_t begin, int64_t end, float* work) {
  const AttentionShape& s = args.shape;
  const int64_t n = end - begin, size = s.size, width = whole_panels(size), pitch = tile_pitch(n);
  const Head in(s, static_cast<const T*>(args.qkv), head, begin);
  float* keys = work;
  float* values = keys + whole_panels(n) * size;
  float* queries = values + n * width;
  float* out = queries + kForwardRows * width;
  float* tile = out + kForwardRows * width;
  load_panels(in.k, in.pitch, n, size, keys);
  load_rows(in.v, in.pitch, n, size, 1.0f, values, width);
  for (int64_t first = 0; first < n; first += kForwardRows) {
    const int64_t rows = least(kForwardRows, n - first);
    load_rows(in.q + first * in.pitch, in.pitch, rows, size, s.scale, queries, width);
    all_pairs(queries, width, rows, keys, size, n, tile, pitch);
    T* context = static_cast<T*>(args.context) + (begin + first) * s.heads * size + head * size;
    float factor[kForwardRows];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t token = begin + first + r;
      float* row = tile + r * pitch;
      const RowSums sums = exponentials(row, n);
      args.logsumexp[token * s.heads + head] =
          sums.largest + static_cast<float>(__builtin_log(static_cast<double>(sums.exponentials)));
      factor[r] = 1.0f / sums.exponentials;
      if (s.dropout == nullptr) continue;
      factor[r] *= s.dropout->scale;
      drop_weights(s, token, head, n, row);
    }
    weighted_sums(tile, pitch, rows, values, width, n, out);
    for (int64_t r = 0; r < rows; ++r)
      store_row(out + r * width, size, factor[r], context + r * s.heads * size);
  }
}

// Of one query, with keep = its words' dropout: p = e^(s - logsumexp) becomes keep * p in place of
// the scores s, and what the scores' gradient is, p * (keep * dp - delta), stands in place of dp.
void row_gradient(const AttentionShape& shape, int64_t token, int64_t head, int64_t n,
                  float logsumexp, float delta, float* scores, float* dp) {
  if (shape.dropout == nullptr) {
    for_vectors(n, [&](int64_t i, int64_t count) {
      const Vec p = exponential(load_lanes(scores + i, count) - logsumexp);
      store_lanes(scores + i, p, count);
      store_lanes(dp + i, p * (load_lanes(dp + i, count) - delta), count);
    });
    return;
  }
  const float scale = shape.dropout->scale;
  const uint32_t drop_below = shape.dropout->drop_below;
  with_words(shape, token, head, n, [&](int64_t at, int64_t count, const uint32_t* words) {
    float *x = scores + at, *d = dp + at;
    for_vectors(count, [&](int64_t i, int64_t lanes) {
      const Vec p = exponential(load_lanes(x + i, lanes) - logsumexp);
      const VecBits word = bits_of(load_vec(reinterpret_cast<const float*>(words + i)));
      const Vec keep = word >= drop_below ? Vec{} + scale : Vec{};
      store_lanes(x + i, keep * p, lanes);
      store_lanes(d + i, p * (keep * load_lanes(d + i, lanes) - delta), lanes);
    });
  });
}

int64_t backward_work(int64_t size, int64_t longest) {
  const int64_t width = whole_panels(size);
  return 2 * whole_panels(longest) * size + 3 * longest * width +
         kBackwardRows * (3 * width + 2 * tile_pitch(longest));
}

template <class T>
void backward(const AttentionGradArgs& args, int64_t head, int64_t begin, int64_t end,
              float* work) {
  const AttentionShape& s = args.shape;
  const int64_t n = end - begin, size = s.size, width = whole_panels(size), pitch = tile_pitch(n);
  const int64_t row_elems = s.heads * size;
  const Head in(s, static_cast<const T*>(args.qkv), head, begin);
  const Head gradient(s, static_cast<T*>(args.dqkv), head, begin);
  float* keys = work;
  float* values = keys + whole_panels(n) * size;
  float* key_rows = values + whole_panels(n) * size;
  float* dk = key_rows + n * width;
  float* dv = dk + n * width;
  float* queries = dv + n * width;
  float* dout = queries + kBackwardRows * width;
  float* dq = dout + kBackwardRows * width;
  float* weights = dq + kBackwardRows * width;
  float* dscores = weights + kBackwardRows * pitch;
  load_panels(in.k, in.pitch, n, size, keys);
  load_panels(in.v, in.pitch, n, size, values);
  load_rows(in.k, in.pitch, n, size, 1.0f, key_rows, width);
  for (int64_t first = 0; first < n; first += kBackwardRows) {
    const int64_t rows = least(kBackwardRows, n - first);
    const int64_t at = (begin + first) * row_elems + head * size;
    const T* context = static_cast<const T*>(args.context) + at;
    const T* dcontext = static_cast<const T*>(args.dcontext) + at;
    load_rows(in.q + first * in.pitch, in.pitch, rows, size, s.scale, queries, width);
    load_rows(dcontext, row_elems, rows, size, 1.0f, dout, width);
    all_pairs(queries, width, rows, keys, size, n, weights, pitch);
    all_pairs(dout, width, rows, values, size, n, dscores, pitch);
    for (int64_t r = 0; r < rows; ++r) {
      float delta = 0;
#pragma omp simd reduction(+ : delta)
      for (int64_t c = 0; c < size; ++c)
        delta += dout[r * width + c] * load(context[r * row_elems + c]);
      const int64_t token = begin + first + r;
      row_gradient(s, token, head, n, args.logsumexp[token * s.heads + head], delta,
                   weights + r * pitch, dscores + r * pitch);
    }
    turned_sums(weights, pitch, n, dout, width, rows, first > 0, dv);
    turned_sums(dscores, pitch, n, queries, width, rows, first > 0, dk);
    weighted_sums(dscores, pitch, rows, key_rows, width, n, dq);
    for (int64_t r = 0; r < rows; ++r)
      store_row(dq + r * width, size, s.scale, gradient.q + (first + r) * in.pitch);
  }
  for (int64_t r = 0; r < n; ++r) {
    store_row(dk + r * width, size, 1.0f, gradient.k + r * in.pitch);
    store_row(dv + r * width, size, 1.0f, gradient.v + r * in.pitch);
  }
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {forward_work,
                                     backward_work,
                                     {forward<float>, forward<Bf16>},
                                     {backward<float>, backward<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
