// Attention and its gradient where cuDNN has none, and what its own wants to be told and leaves
// undone.
//
// A block has sixteen tokens of one head and walks over the others of their sequence, sixteen at a
// time, with a running maximum (arXiv:2205.14135). A thread has one pair of tokens and, of the
// sums, every sixteenth column of one token. Keys and queries are owned in turn, each by a kernel
// of its own, so no two blocks add to one place: no atomics. Shapes: see kernels.h.
#include "sdk/backend/cuda/kernels/philox.h"
#include "sdk/backend/cuda/kernels/rows.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kTile = 16;  // tokens; a block is a tile of pairs
constexpr int kTilePairs = kTile * kTile;
constexpr int kColumns = kMostHeadSize / kTile;  // of one token, in one thread

// Rows of tokens, of one head; a column more than there are, so that threads that read one column
// of many rows do not collide.
using TileRows = float[kTile][kMostHeadSize + 1];

__device__ inline int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

// ends[t] = the largest of ends[0, t]; all threads of the block call it.
__device__ inline void running_largest(int64_t (&ends)[kThreads]) {
  const int t = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int reach = 1; reach < kThreads; reach *= 2) {
    const int64_t other = t >= reach ? ends[t - reach] : 0;
    __syncthreads();
    if (other > ends[t]) ends[t] = other;
    __syncthreads();
  }
}

// Tokens [begin, end) are owned by sequence `b`; b = sequences for the end of all.
__device__ inline void put_rows(const AttentionShape& s, int64_t b, int64_t begin, int64_t end,
                                const AttentionRows& to) {
  to.bounds[2 * b] = begin;
  to.bounds[2 * b + 1] = end;
  if (to.qkv == nullptr) return;
  to.qkv[b] = begin * 3 * s.heads * s.size;
  to.context[b] = begin * s.heads * s.size;
  to.logsumexp[b] = begin * s.heads;
  if (b < s.sequences) to.length[b] = static_cast<int32_t>(end - begin);
}

// The tokens that sequences own (sdk/graph/ops.h), by one block: a sequence ends where the furthest
// of those up to it does.
__global__ void find_rows(const int32_t* start, const int32_t* length, AttentionShape s,
                          AttentionRows to) {
  __shared__ int64_t ends[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  int64_t owned = 0;  // by the sequences of earlier turns
  for (int64_t first = 0; first < s.sequences; first += kThreads) {
    const int64_t b = first + t, begin = b < s.sequences ? start[b] : 0;
    const int64_t count = b < s.sequences ? clamp(length[b], 0, s.longest) : 0;
    ends[t] = clamp(begin + count, owned, s.tokens);
    running_largest(ends);
    if (b < s.sequences)
      put_rows(s, b, clamp(begin, t == 0 ? owned : ends[t - 1], s.tokens), ends[t], to);
    owned = ends[kThreads - 1];
    __syncthreads();
  }
  if (t != 0) return;
  put_rows(s, s.sequences, s.tokens, s.tokens, to);
  if (s.dropout.step == nullptr || to.dropout == nullptr) return;
  uint32_t words[4];
  draw(s.dropout.args, static_cast<uint64_t>(*s.dropout.step), 0, words);
  to.dropout[0] = static_cast<int64_t>(static_cast<uint64_t>(words[1]) << 32 | words[0]);
  to.dropout[1] = 0;
}

constexpr int kGapBlocks = 16;  // for the rows in front of a sequence, and behind the last

// x [tokens, width], y [tokens, y_width].
__global__ void clear_gaps(const int64_t* bounds, uint16_t* x, int64_t width, float* y,
                           int64_t y_width) {
  const int64_t gap = blockIdx.x / kGapBlocks, stride = kGapBlocks * kThreads;
  const int64_t from = gap == 0 ? 0 : bounds[2 * gap - 1], to = bounds[2 * gap];
  const int64_t at = blockIdx.x % kGapBlocks * kThreads + threadIdx.x;
  for (int64_t i = from * width + at; i < to * width; i += stride) x[i] = 0;
  for (int64_t i = from * y_width + at; i < to * y_width; i += stride) y[i] = 0;
}

// What a block is for: tokens [first, first + kTile) of those that a sequence owns, of one head.
struct Place {
  int64_t head, tile, tiles, sequence;
  int64_t begin, end;  // of the sequence

  __device__ Place(const AttentionShape& s, const int64_t* bounds) {
    tiles = (s.longest + kTile - 1) / kTile;
    const int64_t block = blockIdx.x;
    tile = block % tiles;
    head = block / tiles % s.heads;
    sequence = block / tiles / s.heads;
    begin = bounds[2 * sequence];
    end = bounds[2 * sequence + 1];
  }
  __device__ int64_t first() const { return begin + tile * kTile; }
  __device__ bool has_tokens() const { return first() < end; }
};

int64_t blocks_of(const AttentionShape& s) {
  return (s.sequences + 1) * s.heads * ceil_div(s.longest, kTile);
}

// Zeros in x [tokens, parts, heads, size] where nobody owns the tokens before this sequence; its
// tiles share them out.
template <class T>
__device__ void clear_before(const AttentionShape& s, const Place& at, const int64_t* bounds,
                             int parts, T* x) {
  const int64_t from = at.sequence == 0 ? 0 : bounds[2 * at.sequence - 1];
  for (int64_t row = from * parts + at.tile; row < at.begin * parts; row += at.tiles)
    for (int64_t c = threadIdx.x; c < s.size; c += kTilePairs)
      store(x[(row * s.heads + at.head) * s.size + c], 0.0f);
}

// rows[r] = factor * that part of tokens first + r, zero from `end` on; `parts` is 3 in qkv, whose
// parts are q, k and v, and 1 else.
template <class T>
__device__ void load_tile(const AttentionShape& s, const T* x, int parts, int part, int64_t head,
                          int64_t first, int64_t end, float factor, TileRows& rows) {
  for (int64_t i = threadIdx.x; i < kTile * s.size; i += kTilePairs) {
    const int64_t r = i / s.size, c = i % s.size, token = first + r;
    rows[r][c] = token < end
                     ? factor * load(x[((token * parts + part) * s.heads + head) * s.size + c])
                     : 0.0f;
  }
}

__device__ inline float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) sum = fmaf(a[c], b[c], sum);
  return sum;
}

// What the weight of key `place`, counted within the sequence, is multiplied by for this query.
__device__ inline float keep(const AttentionShape& s, int64_t query, int64_t head, int64_t place) {
  if (s.dropout.step == nullptr) return 1.0f;
  const int64_t counters = (s.longest + 3) / 4;
  uint32_t words[4];
  draw(s.dropout.args, static_cast<uint64_t>(*s.dropout.step),
       (query * s.heads + head) * counters + place / 4, words);
  return words[place % 4] >= s.dropout.args.drop_below ? s.dropout.args.scale : 0.0f;
}

// sums[i] += sum over the tile's tokens of weights[row][token] * values[token][lane + i * kTile].
__device__ inline void add_weighted(const AttentionShape& s, int row, int lane,
                                    const float (&weights)[kTile][kTile + 1],
                                    const TileRows& values, float (&sums)[kColumns]) {
  for (int i = 0; i < kColumns; ++i) {
    const int c = lane + i * kTile;
    if (c >= s.size) break;
    for (int token = 0; token < kTile; ++token)
      sums[i] = fmaf(weights[row][token], values[token][c], sums[i]);
  }
}

template <class T>
__device__ void store_columns(const AttentionShape& s, int lane, float factor,
                              const float (&sums)[kColumns], T* to) {
  for (int i = 0; i < kColumns; ++i) {
    const int c = lane + i * kTile;
    if (c < s.size) store(to[c], factor * sums[i]);
  }
}

template <class T>
__global__ void attend(AttentionShape s, const int64_t* bounds, const T* qkv, T* context,
                       float* logsumexp) {
  __shared__ TileRows queries, others;
  __shared__ float weights[kTile][kTile + 1];
  __shared__ float shared[kTilePairs];
  const Place at(s, bounds);
  clear_before(s, at, bounds, 1, context);
  const int64_t unowned = at.sequence == 0 ? 0 : bounds[2 * at.sequence - 1];
  for (int64_t token = unowned + at.tile; token < at.begin; token += at.tiles)
    if (threadIdx.x == 0) logsumexp[token * s.heads + at.head] = 0;
  if (!at.has_tokens()) return;  // the whole block

  const Rows r{kTile, kTile, kTile};
  const int row = static_cast<int>(threadIdx.x) / kTile, lane = r.lane();
  const int64_t query = at.first() + row;
  load_tile(s, qkv, 3, 0, at.head, at.first(), at.end, s.scale, queries);
  float largest = -INFINITY, sum = 0, sums[kColumns] = {};
  for (int64_t first = at.begin; first < at.end; first += kTile) {
    load_tile(s, qkv, 3, 1, at.head, first, at.end, 1.0f, others);
    __syncthreads();
    const bool is_key = first + lane < at.end;
    const float score = is_key ? dot(queries[row], others[lane], s.size) : -INFINITY;
    const float before = largest;
    const float tile_largest = row_reduce(r, score, shared, Larger{});
    largest = tile_largest > before ? tile_largest : before;
    const float p = is_key ? expf(score - largest) : 0.0f;
    const float shrink = before == -INFINITY ? 0.0f : expf(before - largest);
    sum = sum * shrink + row_reduce(r, p, shared, Plus{});
    weights[row][lane] =
        is_key && query < at.end ? p * keep(s, query, at.head, first + lane - at.begin) : 0.0f;
    // row_reduce, not of a warp, ended in a barrier.
    load_tile(s, qkv, 3, 2, at.head, first, at.end, 1.0f, others);
    __syncthreads();
    for (float& x : sums) x *= shrink;
    add_weighted(s, row, lane, weights, others, sums);
    __syncthreads();
  }
  if (query >= at.end) return;
  store_columns(s, lane, 1.0f / sum, sums, context + (query * s.heads + at.head) * s.size);
  if (lane == 0)
    logsumexp[query * s.heads + at.head] =
        largest + static_cast<float>(log(static_cast<double>(sum)));
}

// delta[head][token] = sum over the head's columns of context * dcontext.
template <class T>
__global__ void find_deltas(Rows r, AttentionShape s, const T* context, const T* dcontext,
                            float* delta) {
  __shared__ float shared[kThreads];
  const int64_t row = r.row();
  float sum = 0;
  if (row < r.rows) {
    for (int64_t c = r.lane(); c < r.size; c += r.width)
      sum = fmaf(load(context[row * r.size + c]), load(dcontext[row * r.size + c]), sum);
  }
  sum = row_reduce(r, sum, shared, Plus{});
  if (row < r.rows && r.lane() == 0) delta[row % s.heads * s.tokens + row / s.heads] = sum;
}

// Of one pair: the weight as forward used it, and the gradient of its score.
struct PairGradient {
  float weight, score;
};
// query and dcontext rows against key and value rows; `query_row` already scaled.
__device__ inline PairGradient pair_gradient(const AttentionShape& s, int64_t head, int64_t query,
                                             int64_t place, const float* query_row,
                                             const float* dcontext_row, const float* key_row,
                                             const float* value_row, const float* logsumexp,
                                             const float* delta) {
  const float p = expf(dot(query_row, key_row, s.size) - logsumexp[query * s.heads + head]);
  const float kept = keep(s, query, head, place);
  const float dp = dot(dcontext_row, value_row, s.size);
  return {p * kept, p * (kept * dp - delta[head * s.tokens + query])};
}

// dq of the block's tokens; zeros in all of dqkv that nobody owns.
template <class T>
__global__ void query_gradient(AttentionShape s, const int64_t* bounds, const T* qkv,
                               const T* dcontext, const float* logsumexp, const float* delta,
                               T* dqkv) {
  __shared__ TileRows queries, dout, keys, values;
  __shared__ float dscores[kTile][kTile + 1];
  const Place at(s, bounds);
  clear_before(s, at, bounds, 3, dqkv);
  if (!at.has_tokens()) return;
  const int row = static_cast<int>(threadIdx.x) / kTile,
            lane = static_cast<int>(threadIdx.x) % kTile;
  const int64_t query = at.first() + row;
  load_tile(s, qkv, 3, 0, at.head, at.first(), at.end, s.scale, queries);
  load_tile(s, dcontext, 1, 0, at.head, at.first(), at.end, 1.0f, dout);
  float sums[kColumns] = {};
  for (int64_t first = at.begin; first < at.end; first += kTile) {
    load_tile(s, qkv, 3, 1, at.head, first, at.end, 1.0f, keys);
    load_tile(s, qkv, 3, 2, at.head, first, at.end, 1.0f, values);
    __syncthreads();
    const bool is_pair = query < at.end && first + lane < at.end;
    dscores[row][lane] =
        is_pair ? pair_gradient(s, at.head, query, first + lane - at.begin, queries[row], dout[row],
                                keys[lane], values[lane], logsumexp, delta)
                      .score
                : 0.0f;
    __syncthreads();
    add_weighted(s, row, lane, dscores, keys, sums);
    __syncthreads();
  }
  if (query < at.end)
    store_columns(s, lane, s.scale, sums, dqkv + (query * 3 * s.heads + at.head) * s.size);
}

// dk and dv of the block's tokens.
template <class T>
__global__ void key_gradient(AttentionShape s, const int64_t* bounds, const T* qkv,
                             const T* dcontext, const float* logsumexp, const float* delta,
                             T* dqkv) {
  __shared__ TileRows queries, dout, keys, values;
  __shared__ float weights[kTile][kTile + 1], dscores[kTile][kTile + 1];
  const Place at(s, bounds);
  if (!at.has_tokens()) return;
  const int row = static_cast<int>(threadIdx.x) / kTile,
            lane = static_cast<int>(threadIdx.x) % kTile;
  const int64_t key = at.first() + row;
  load_tile(s, qkv, 3, 1, at.head, at.first(), at.end, 1.0f, keys);
  load_tile(s, qkv, 3, 2, at.head, at.first(), at.end, 1.0f, values);
  float dk[kColumns] = {}, dv[kColumns] = {};
  for (int64_t first = at.begin; first < at.end; first += kTile) {
    load_tile(s, qkv, 3, 0, at.head, first, at.end, s.scale, queries);
    load_tile(s, dcontext, 1, 0, at.head, first, at.end, 1.0f, dout);
    __syncthreads();
    PairGradient pair{0, 0};
    if (key < at.end && first + lane < at.end)
      pair = pair_gradient(s, at.head, first + lane, key - at.begin, queries[lane], dout[lane],
                           keys[row], values[row], logsumexp, delta);
    weights[row][lane] = pair.weight;
    dscores[row][lane] = pair.score;
    __syncthreads();
    add_weighted(s, row, lane, weights, dout, dv);
    add_weighted(s, row, lane, dscores, queries, dk);
    __syncthreads();
  }
  if (key >= at.end) return;
  T* to = dqkv + ((key * 3 + 1) * s.heads + at.head) * s.size;
  store_columns(s, lane, 1.0f, dk, to);
  store_columns(s, lane, 1.0f, dv, to + s.heads * s.size);
}

}  // namespace

void attention_bounds(Stream stream, const AttentionShape& s, const int32_t* start,
                      const int32_t* length, int64_t* bounds) {
  attention_rows(stream, s, start, length, {bounds, nullptr, nullptr, nullptr, nullptr, nullptr});
}

void attention_rows(Stream stream, const AttentionShape& s, const int32_t* start,
                    const int32_t* length, const AttentionRows& to) {
  launch(stream, 1, kThreads, find_rows, start, length, s, to);
}

void clear_unowned(Stream stream, const AttentionShape& s, const int64_t* bounds, void* x,
                   int64_t width, float* logsumexp) {
  launch(stream, static_cast<unsigned>((s.sequences + 1) * kGapBlocks), kThreads, clear_gaps,
         bounds, static_cast<uint16_t*>(x), width, logsumexp, logsumexp == nullptr ? 0 : s.heads);
}

void attention(Stream stream, Element element, const AttentionShape& s, const int64_t* bounds,
               const void* qkv, void* context, float* logsumexp) {
  const auto blocks = static_cast<unsigned>(blocks_of(s));
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks, kTilePairs, attend<T>, s, bounds, static_cast<const T*>(qkv),
           static_cast<T*>(context), logsumexp);
  });
}

void attention_grad(Stream stream, Element element, const AttentionShape& s, const int64_t* bounds,
                    const void* qkv, const void* context, const void* dcontext,
                    const float* logsumexp, float* delta, void* dqkv) {
  const Rows r = rows_of(s.tokens * s.heads, s.size);
  const auto blocks = static_cast<unsigned>(blocks_of(s));
  dispatch(element, [&]<class T>(T) {
    const auto* x = static_cast<const T*>(qkv);
    const auto* dy = static_cast<const T*>(dcontext);
    auto* dx = static_cast<T*>(dqkv);
    launch(stream, blocks_of(r), kThreads, find_deltas<T>, r, s, static_cast<const T*>(context), dy,
           delta);
    launch(stream, blocks, kTilePairs, query_gradient<T>, s, bounds, x, dy, logsumexp, delta, dx);
    launch(stream, blocks, kTilePairs, key_gradient<T>, s, bounds, x, dy, logsumexp, delta, dx);
  });
}

}  // namespace assay::cuda::kernels
