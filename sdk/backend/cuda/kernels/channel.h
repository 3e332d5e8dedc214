// Tensors of rows of channels on a GPU: how they are cut into blocks, and summed up per channel.
//
// A block of threads is `x` packs of neighbouring channels wide and `y` rows high, 256 in all. For
// sums a block takes kRowsOfThread rows per thread and leaves one f64 partial sum per channel. The
// block that comes last of a group adds those of its group, the last of these those of the groups:
// always in the order of the rows, whoever comes last. A thread's own sum is f32 over at most
// kRowsOfThread rows, and moments are taken around a pivot (the block's first row), so that a large
// common mean does not cancel: with x = 1000 +- 1 the variance keeps its f32 digits.
#pragma once

#include <algorithm>

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

constexpr int kRowsOfThread = 64;

// How a tensor [rows, channels] is cut into blocks.
struct Cut {
  int64_t rows, channels;
  int64_t rows_of_block;
  bool whole;  // every pack lies on a 16-byte boundary and is full

  // The rows of this block.
  __device__ int64_t begin() const { return blockIdx.y * rows_of_block; }
  __device__ int64_t end() const {
    const int64_t next = (blockIdx.y + int64_t{1}) * rows_of_block;
    return next < rows ? next : rows;
  }
};

// The same of images one below the other, where no block has rows of two.
struct ImageCut : Cut {
  int64_t rows_of_image;
  int blocks_of_image;

  __device__ int image() const { return static_cast<int>(blockIdx.y) / blocks_of_image; }
  __device__ int64_t begin() const {
    const int block = static_cast<int>(blockIdx.y) % blocks_of_image;
    return image() * rows_of_image + block * rows_of_block;
  }
  __device__ int64_t end() const {
    const int64_t next = begin() + rows_of_block, image_end = (image() + 1) * rows_of_image;
    return next < image_end ? next : image_end;
  }
};

struct Blocks {
  dim3 grid, block;
};

template <class T>
Blocks blocks_of(int64_t rows, int64_t channels, int64_t rows_of_thread) {
  const int64_t packs = ceil_div(channels, kPack<T>);
  unsigned x = 1;
  while (x < 32 && x < packs) x *= 2;
  const unsigned y = kThreads / x;
  return {dim3(static_cast<unsigned>(ceil_div(packs, x)),
               static_cast<unsigned>(ceil_div(rows, y * rows_of_thread))),
          dim3(x, y)};
}

// The grid has at most 65535 rows of blocks, so very tall tensors get more rows per thread; and
// very wide ones, for each column of blocks counts arrivals.
template <class T>
int64_t rows_of_thread(int64_t rows, int64_t channels) {
  const auto fits = [](const dim3& grid) {
    return grid.y <= 1 || (grid.y <= 32768 && grid.x <= kArrivals / 2);
  };
  int64_t n = kRowsOfThread;
  while (!fits(blocks_of<T>(rows, channels, n).grid)) n *= 2;
  return n;
}

template <class T>
Cut cut_of(int64_t rows, int64_t channels, const Blocks& blocks, int64_t of_thread, bool aligned) {
  return {rows, channels, blocks.block.y * of_thread, aligned && channels % kPack<T> == 0};
}

// Calls body<whole>(channel, n) for the channels of this thread, if there are any. Where packs are
// whole, n is a constant, and so are the lengths of all loops over elements.
template <class T, class Body>
__device__ void for_channels(const Cut& cut, const Body& body) {
  constexpr int N = kPack<T>;
  const int64_t channel = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const int64_t rest = cut.channels - channel;
  if (rest <= 0) return;
  if (cut.whole) {
    body.template operator()<true>(channel, N);
  } else {
    body.template operator()<false>(channel, rest < N ? static_cast<int>(rest) : N);
  }
}

// Calls use(read(at), at) for the rows of this thread in their order; at: of its first channel.
// Rows are read kBatch at a time before the first of them is used: that many accesses, times those
// of a row, are under way at once. Returns how many rows there are.
template <int kBatch, class AnyCut, class Read, class Use>
__device__ int for_rows(const AnyCut& cut, int64_t channel, const Read& read, const Use& use) {
  const int64_t first = cut.begin() + threadIdx.y, end = cut.end();
  const int64_t step = blockDim.y * cut.channels;
  const int rows =
      first < end ? static_cast<int>(end - first - 1) / static_cast<int>(blockDim.y) + 1 : 0;
  int64_t at = first * cut.channels + channel;
  int left = rows;
  ASSAY_ROLLED
  for (; left >= kBatch; left -= kBatch, at += kBatch * step) {
    decltype(read(at)) batch[kBatch];
    for (int k = 0; k < kBatch; ++k) batch[k] = read(at + k * step);
    for (int k = 0; k < kBatch; ++k) use(batch[k], at + k * step);
  }
  ASSAY_ROLLED
  for (; left > 0; --left, at += step) use(read(at), at);
  return rows;
}

// Blocks above each other, in groups of so many. A block of rows leaves its sums in row
// [block] of partial[blocks + groups][kind][channel], a group in row [blocks + group].
struct Groups {
  int blocks, of_group, count;
};

// About as many groups as one of them has blocks, one for few blocks, and no more than there are
// arrivals to count: one of each group and one more, in each column of blocks.
inline Groups groups_of(const dim3& grid) {
  constexpr int64_t kFew = 32;
  const auto blocks = static_cast<int64_t>(grid.y);
  if (blocks <= 1) return {1, 1, 1};
  const int64_t most = kArrivals / std::max<int64_t>(grid.x, 1) - 1;
  int64_t of_group = std::max(kFew, ceil_div(blocks, most));
  while (of_group * of_group < blocks) ++of_group;
  return {static_cast<int>(blocks), static_cast<int>(of_group),
          static_cast<int>(ceil_div(blocks, of_group))};
}

// Whether this block comes here as the last of n, and may read what the others wrote before, past
// the first-level cache. The count begins anew then.
__device__ inline bool arrives_last(uint32_t* count, int n) {
  __shared__ bool last;
  __syncthreads();
  const auto all_others = static_cast<unsigned>(n - 1);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // behind the barrier: for what the other threads wrote
    last = atomicInc(count, all_others) == all_others;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The sums of n rows of partial[row][kKinds][channels], in their order, for one channel.
template <int kKinds>
__device__ void add_rows(const double* partial, int n, int64_t channels, double (&sums)[kKinds]) {
  constexpr int kBatch = 16 / kKinds;  // rows read ahead
  for (int kind = 0; kind < kKinds; ++kind) sums[kind] = 0;
  ASSAY_ROLLED
  for (; n >= kBatch; n -= kBatch, partial += kBatch * kKinds * channels) {
    double batch[kBatch * kKinds];
    for (int k = 0; k < kBatch * kKinds; ++k) batch[k] = __ldcg(partial + k * channels);
    for (int k = 0; k < kBatch * kKinds; ++k) sums[k % kKinds] += batch[k];
  }
  ASSAY_ROLLED
  for (; n > 0; --n, partial += kKinds * channels)
    for (int kind = 0; kind < kKinds; ++kind) sums[kind] += __ldcg(partial + kind * channels);
}

// Ends the sums of this block's channels, if the block is the last; every thread comes here.
template <int kKinds, class Finish>
__device__ void fold(const Groups& groups, const PartialSums& to, int64_t channels, int width,
                     const Finish& finish) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * width + t;
  const bool has_channel = t < width && channel < channels;
  const int group = static_cast<int>(blockIdx.y) / groups.of_group;
  const int first = group * groups.of_group, left = groups.blocks - first;
  const int n = left < groups.of_group ? left : groups.of_group;
  uint32_t* const arrivals = to.arrivals + static_cast<int64_t>(blockIdx.x) * (groups.count + 1);
  const auto row = [&](int i) { return to.sums + i * kKinds * channels + channel; };
  double sums[kKinds];
  if (n > 1 && !arrives_last(arrivals + group, n)) return;
  if (has_channel) add_rows(row(first), n, channels, sums);
  if (groups.count > 1) {
    if (has_channel) {
      for (int kind = 0; kind < kKinds; ++kind)
        row(groups.blocks + group)[kind * channels] = sums[kind];
    }
    if (!arrives_last(arrivals + groups.count, groups.count)) return;
    if (has_channel) add_rows(row(groups.blocks), groups.count, channels, sums);
  }
  if (has_channel) finish(channel, sums);
}

// Of each of N neighbouring channels the sum of value(i) over the rows of threads, in the order of
// a binary tree, in out[i] of the first n; every thread of the block comes here.
template <int N, class Value>
__device__ void add_threads(double (&shared)[N][kThreads], int n, double* out, const Value& value) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int i = 0; i < N; ++i) shared[i][t] = value(i);
  __syncthreads();
  for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.y) < half) {
      for (int i = 0; i < N; ++i) shared[i][t] += shared[i][t + half * blockDim.x];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0) {
    for (int i = 0; i < n; ++i) out[i] = shared[i][t];
  }
  __syncthreads();
}

// A term reads packs of one row (`Row`) and adds them to kKinds sums per channel; it reads kBatch
// rows ahead, and kBlocks blocks are to fit on a multiprocessor. Its `finish` turns a thread's f32
// sums over `rows` rows into f64; that of the sums takes a channel and its totals.
template <class T, class Term, class Finish, class AnyCut>
__global__ void __launch_bounds__(kThreads, Term::kBlocks)
    channel_sums(Term term, AnyCut cut, Groups groups, PartialSums to, Finish finish) {
  constexpr int N = kPack<T>, kKinds = Term::kKinds;
  __shared__ double shared[N][kThreads];
  typename Term::State state;
  int64_t channel = 0;
  int n = 0;
  double rows = 0;
  for_channels<T>(cut, [&]<bool kWhole>(int64_t first, int elements) {
    channel = first, n = elements;
    term.template start<kWhole>(state, cut.begin() * cut.channels + channel, channel, elements);
    constexpr int kBatch = kWhole ? Term::kBatch : 1;
    rows = for_rows<kBatch>(
        cut, channel, [&](int64_t at) { return term.template read<kWhole>(at, elements); },
        [&](const typename Term::Row& row, int64_t at) {
          term.template add<kWhole>(state, row, at, elements);
        });
  });
  for (int kind = 0; kind < kKinds; ++kind) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * kKinds + kind;
    add_threads(shared, n, to.sums + row * cut.channels + channel, [&](int i) {
      double sums[kKinds] = {};
      if (n > 0) term.finish(state, rows, i, sums);
      return sums[kind];
    });
  }
  fold<kKinds>(groups, to, cut.channels, static_cast<int>(blockDim.x) * N, finish);
}

template <class T, class Term, class Finish>
void sum_and_finish(Stream stream, const Term& term, int64_t rows, int64_t channels, bool aligned,
                    PartialSums to, const Finish& finish) {
  const int64_t of_thread = rows_of_thread<T>(rows, channels);
  const Blocks blocks = blocks_of<T>(rows, channels, of_thread);
  launch(stream, blocks.grid, blocks.block, channel_sums<T, Term, Finish, Cut>, term,
         cut_of<T>(rows, channels, blocks, of_thread, aligned), groups_of(blocks.grid), to, finish);
}

}  // namespace assay::cuda::kernels
