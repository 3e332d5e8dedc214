// Windows over NHWC images: which pixels they cover, and where their maxima stand. One thread per
// pixel and pack of channels.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

__device__ inline int least(int a, int b) { return a < b ? a : b; }
__device__ inline int most(int a, int b) { return a > b ? a : b; }

// A PoolShape whose numbers fit 32 bits, as those of one image do: indices within an image are
// divided, and a division of 64 bits is a call.
struct Shape {
  int n, h, w, c, p, q;
  int window[2], stride[2], pad[2];
};
inline Shape shape_of(const PoolShape& s) {
  const auto small = [](int64_t x) { return static_cast<int>(x); };
  return {small(s.n),
          small(s.h),
          small(s.w),
          small(s.c),
          small(s.p),
          small(s.q),
          {small(s.window[0]), small(s.window[1])},
          {small(s.stride[0]), small(s.stride[1])},
          {small(s.pad[0]), small(s.pad[1])}};
}

// The part of a window along one axis that lies inside the image.
struct Span {
  int begin, end;
  int first;  // where the window itself begins, maybe outside
};
__device__ inline Span window_span(const Shape& s, int axis, int out, int size) {
  const int first = out * s.stride[axis] - s.pad[axis];
  return {most(first, 0), least(first + s.window[axis], size), first};
}

// The outputs along one axis whose windows contain the input at `in`.
__device__ inline Span covering_span(const Shape& s, int axis, int in, int outputs) {
  const int reach = in + s.pad[axis] - s.window[axis] + 1;
  const int begin = reach > 0 ? (reach + s.stride[axis] - 1) / s.stride[axis] : 0;
  return {begin, least((in + s.pad[axis]) / s.stride[axis] + 1, outputs), 0};
}

// A pixel of an image [n, rows, columns, c] and a pack of its channels.
struct Place {
  int image, row, column, channel;
  int n;       // channels in the pack
  int64_t at;  // element offset
};

// A row of blocks per image, and more images than there are such rows one after the other.
template <class T, class Body>
__device__ void for_places(const Shape& s, int rows, int columns, const Body& body) {
  const unsigned packs = static_cast<unsigned>(s.c + kPack<T> - 1) / kPack<T>;
  const unsigned of_row = static_cast<unsigned>(columns) * packs;
  const unsigned total = static_cast<unsigned>(rows) * of_row;
  for (int image = static_cast<int>(blockIdx.y); image < s.n;
       image += static_cast<int>(gridDim.y)) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += gridDim.x * blockDim.x) {
      const unsigned row = i / of_row, in_row = i - row * of_row;
      const unsigned column = in_row / packs;
      const int channel = static_cast<int>(in_row - column * packs) * kPack<T>;
      const int64_t pixel = (static_cast<int64_t>(image) * rows + row) * columns + column;
      body(Place{image, static_cast<int>(row), static_cast<int>(column), channel,
                 least(kPack<T>, s.c - channel), pixel * s.c + channel});
    }
  }
}

// Offset of pixel (h, w) of the image, at this place's channels.
__device__ inline int64_t pixel_at(const Shape& s, const Place& p, int h, int w) {
  return ((static_cast<int64_t>(p.image) * s.h + h) * s.w + w) * s.c + p.channel;
}

// As pixel_at, of the output (p, q).
__device__ inline int64_t pooled_at(const Shape& s, const Place& place, int p, int q) {
  return ((static_cast<int64_t>(place.image) * s.p + p) * s.q + q) * s.c + place.channel;
}

// Calls use(pack, h, w) for the pixels of a window in x, row by row. Several of a row are read
// before the first of them is used.
template <bool kWhole, class T, class Use>
__device__ void for_window(const Shape& s, const Place& p, const Span& rows, const Span& columns,
                           const T* x, const Use& use) {
  constexpr int kBatch = 4;
  for (int h = rows.begin; h < rows.end; ++h) {
    const T* next = x + pixel_at(s, p, h, columns.begin);
    ASSAY_ROLLED
    for (int w = columns.begin; w < columns.end; w += kBatch, next += kBatch * s.c) {
      Pack<T> batch[kBatch] = {};
      ASSAY_UNROLLED
      for (int k = 0; k < kBatch; ++k) {
        if (w + k < columns.end) batch[k] = read_pack<kWhole>(next + k * s.c, p.n);
      }
      ASSAY_UNROLLED
      for (int k = 0; k < kBatch; ++k) {
        if (w + k < columns.end) use(batch[k], h, w + k);
      }
    }
  }
}

// Positions of the winners of a pack's channels in their windows, [0, n) of p: one access where
// packs are whole.
template <class Index, int N>
struct alignas(N * sizeof(Index)) Positions {
  Index of[N];
};
template <int N, class Index>
__device__ Positions<Index, N> load_positions(const Index* p, int n, bool whole) {
  if (whole) return *reinterpret_cast<const Positions<Index, N>*>(p);
  Positions<Index, N> positions{};
  for (int i = 0; i < N; ++i) {
    if (i < n) positions.of[i] = p[i];
  }
  return positions;
}
template <class Index, int N>
__device__ void store_positions(Index* p, int n, bool whole, const Positions<Index, N>& positions) {
  if (whole) {
    *reinterpret_cast<Positions<Index, N>*>(p) = positions;
    return;
  }
  for (int i = 0; i < N; ++i) {
    if (i < n) p[i] = positions.of[i];
  }
}

// What arrives from dy at a place in x: of each window around it whose maximum stands there.
template <class T, class Index>
__device__ void gather_gradient(const Shape& s, const Place& place, const Index* which, const T* dy,
                                bool whole, float (&sum)[kPack<T>]) {
  constexpr int N = kPack<T>;
  const Span ps = covering_span(s, 0, place.row, s.p), qs = covering_span(s, 1, place.column, s.q);
  float v[N];
  for (int i = 0; i < N; ++i) sum[i] = 0;
  for (int p = ps.begin; p < ps.end; ++p) {
    for (int q = qs.begin; q < qs.end; ++q) {
      const int64_t at = pooled_at(s, place, p, q);
      const int here = (place.row + s.pad[0] - p * s.stride[0]) * s.window[1] + place.column +
                       s.pad[1] - q * s.stride[1];
      load_pack<N>(dy + at, place.n, whole, v);
      const Positions<Index, N> winners = load_positions<N>(which + at, place.n, whole);
      for (int i = 0; i < N; ++i) {
        if (winners.of[i] == here) sum[i] += v[i];
      }
    }
  }
}

template <class T>
bool whole_packs(const PoolShape& s, const void* a, const void* b) {
  return s.c % kPack<T> == 0 && on_16_bytes(a, b);
}

template <class T>
dim3 blocks_of(const PoolShape& s, int64_t pixels) {
  constexpr int64_t kMost = 32768;
  return dim3(blocks_for(pixels * ceil_div(s.c, kPack<T>)),
              static_cast<unsigned>(s.n < kMost ? s.n : kMost));
}

}  // namespace assay::cuda::kernels
