// Tensors of rows of channels on a GPU: how they are cut into blocks, and summed up per channel.
//
// A block of threads is `x` packs of neighbouring channels wide and `y` rows high, 256 in all. For
// sums a block takes kRowsOfThread rows per thread and leaves one f64 partial sum per channel; a
// second launch adds these in a fixed order, where there is more than one. A thread's own sum is
// f32 over at most kRowsOfThread rows, and moments are taken around a pivot (the block's first
// row), so that a large common mean does not cancel: with x = 1000 +- 1 the variance keeps its f32
// digits.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

constexpr int kRowsOfThread = 64;

// How a tensor [rows, channels] is cut into blocks.
struct Cut {
  int64_t rows, channels;
  int64_t rows_of_block;
  bool whole;  // every pack lies on a 16-byte boundary and is full
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

// The grid has at most 65535 rows of blocks, so very tall tensors get more rows per thread.
template <class T>
int64_t rows_of_thread(int64_t rows, int64_t channels) {
  int64_t n = kRowsOfThread;
  while (blocks_of<T>(rows, channels, n).grid.y > 32768) n *= 2;
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
template <int kBatch, class Read, class Use>
__device__ int for_rows(const Cut& cut, int64_t channel, const Read& read, const Use& use) {
  const int64_t first = blockIdx.y * cut.rows_of_block + threadIdx.y;
  const int64_t next = (blockIdx.y + int64_t{1}) * cut.rows_of_block;
  const int64_t end = next < cut.rows ? next : cut.rows;
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

// partial[row of blocks][kind][channel]. One row of blocks has the totals, and finishes them.
// A term reads packs of one row (`Row`) and adds them to kKinds sums per channel; it reads kBatch
// rows ahead, and kBlocks blocks are to fit on a multiprocessor. Its `finish` turns a thread's f32
// sums over `rows` rows into f64.
template <class T, class Term, class Finish>
__global__ void __launch_bounds__(kThreads, Term::kBlocks)
    channel_sums(Term term, Cut cut, double* partial, Finish finish) {
  constexpr int N = kPack<T>, kKinds = Term::kKinds;
  __shared__ double shared[N][kThreads];
  typename Term::State state;
  int64_t channel = 0;
  int n = 0;
  double rows = 0;
  for_channels<T>(cut, [&]<bool kWhole>(int64_t first, int elements) {
    channel = first, n = elements;
    term.template start<kWhole>(state, blockIdx.y * cut.rows_of_block * cut.channels + channel,
                                channel, elements);
    constexpr int kBatch = kWhole ? Term::kBatch : 1;
    rows = for_rows<kBatch>(
        cut, channel, [&](int64_t at) { return term.template read<kWhole>(at, elements); },
        [&](const typename Term::Row& row, int64_t at) {
          term.template add<kWhole>(state, row, at, elements);
        });
  });
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < N; ++i) {
      double sums[kKinds] = {};
      if (n > 0) term.finish(state, rows, i, sums);
      shared[i][t] = sums[kind];
    }
    __syncthreads();
    for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.y) < half) {
        for (int i = 0; i < N; ++i) shared[i][t] += shared[i][t + half * blockDim.x];
      }
      __syncthreads();
    }
    if (threadIdx.y == 0) {
      double* out =
          partial + (static_cast<int64_t>(blockIdx.y) * kKinds + kind) * cut.channels + channel;
      for (int i = 0; i < n; ++i) out[i] = shared[i][t];
    }
    __syncthreads();
  }
  if (gridDim.y > 1 || threadIdx.y > 0) return;
  ASSAY_ROLLED
  for (int i = 0; i < n; ++i) {
    double totals[kKinds];
    for (int kind = 0; kind < kKinds; ++kind)
      totals[kind] = 0.0 + partial[kind * cut.channels + channel + i];  // as fold_sums: no -0
    finish(channel + i, totals);
  }
}

constexpr int kFoldChannels = 8, kFoldRows = kThreads / kFoldChannels;  // of a block of fold_sums

// Adds the partial sums of every channel and calls finish(channel, totals).
template <int kKinds, class Finish>
__global__ void fold_sums(const double* partial, int64_t blocks, int64_t channels, Finish finish) {
  constexpr int kBatch = 8;
  __shared__ double shared[kThreads];
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kFoldChannels + threadIdx.x;
  const int t = static_cast<int>(threadIdx.y) * kFoldChannels + static_cast<int>(threadIdx.x);
  double totals[kKinds];
  for (int kind = 0; kind < kKinds; ++kind) {
    double sum = 0;
    if (channel < channels) {
      const double* next = partial + (threadIdx.y * kKinds + kind) * channels + channel;
      const int64_t step = kFoldRows * kKinds * channels;
      int left =
          threadIdx.y < blocks ? static_cast<int>(blocks - threadIdx.y - 1) / kFoldRows + 1 : 0;
      ASSAY_ROLLED
      for (; left >= kBatch; left -= kBatch, next += kBatch * step) {  // read ahead, added in order
        double batch[kBatch];
        for (int k = 0; k < kBatch; ++k) batch[k] = next[k * step];
        for (int k = 0; k < kBatch; ++k) sum += batch[k];
      }
      ASSAY_ROLLED
      for (; left > 0; --left, next += step) sum += *next;
    }
    shared[t] = sum;
    __syncthreads();
    for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.y) < half) shared[t] += shared[t + half * kFoldChannels];
      __syncthreads();
    }
    totals[kind] = shared[threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && channel < channels) finish(channel, totals);
}

template <class T, class Term, class Finish>
void sum_and_finish(Stream stream, const Term& term, int64_t rows, int64_t channels, bool aligned,
                    double* partial, const Finish& finish) {
  const int64_t of_thread = rows_of_thread<T>(rows, channels);
  const Blocks blocks = blocks_of<T>(rows, channels, of_thread);
  launch(stream, blocks.grid, blocks.block, channel_sums<T, Term, Finish>, term,
         cut_of<T>(rows, channels, blocks, of_thread, aligned), partial, finish);
  if (blocks.grid.y > 1)
    launch(stream, dim3(static_cast<unsigned>(ceil_div(channels, kFoldChannels))),
           dim3(kFoldChannels, kFoldRows), fold_sums<Term::kKinds, Finish>,
           static_cast<const double*>(partial), static_cast<int64_t>(blocks.grid.y), channels,
           finish);
}

}  // namespace assay::cuda::kernels
