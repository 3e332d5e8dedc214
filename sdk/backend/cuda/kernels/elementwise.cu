// Fills, dropout, and what follows a product: one pass over memory; each thread moves packs of 16
// bytes.
#include "sdk/backend/cuda/kernels/epilogue.h"
#include "sdk/backend/cuda/kernels/philox.h"

namespace assay::cuda::kernels {
namespace {

// Elements left from `begin` on, as far as a pack of N reaches.
template <int N>
__device__ int left(int64_t n, int64_t begin) {
  return n - begin < N ? static_cast<int>(n - begin) : N;
}

__global__ void fill_value(float* y, float value, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) y[i] = value;
}

__global__ void count_up(int32_t* y, int64_t n, int64_t period, int64_t step) {
  for (int64_t i = global_thread(); i < n; i += total_threads())
    y[i] = static_cast<int32_t>(i % period * step);
}

__global__ void offset(const int32_t* index, const int32_t* start, int32_t* y, int64_t n,
                       int64_t of_each) {
  for (int64_t i = global_thread(); i < n; i += total_threads())
    y[i] = index[i] < 0 ? -1 : index[i] + start[i / of_each];
}

// One block for each sequence; that of the last one also marks the rows behind it.
__global__ void pack_places(const int32_t* length, int32_t* start, int32_t* source, int32_t* target,
                            int64_t longest, int64_t capacity) {
  const auto rows_of = [&](int64_t sequence, int64_t before) {
    const int64_t rows = length[sequence], room = capacity - before;
    const int64_t most = room < longest ? room : longest;
    return rows < 0 ? 0 : rows < most ? rows : most;
  };
  const int64_t sequence = blockIdx.x, first = sequence * longest;
  int64_t row = 0;
  for (int64_t i = 0; i < sequence; ++i) row += rows_of(i, row);
  const int64_t rows = rows_of(sequence, row);
  if (threadIdx.x == 0) start[sequence] = static_cast<int32_t>(row);
  for (int64_t i = threadIdx.x; i < longest; i += blockDim.x)
    target[first + i] = i < rows ? static_cast<int32_t>(row + i) : -1;
  const int64_t end = sequence + 1 == gridDim.x ? capacity : row + rows;
  for (int64_t i = threadIdx.x; i < end - row; i += blockDim.x)
    source[row + i] = i < rows ? static_cast<int32_t>(first + i) : -1;
}

constexpr int kCastElems = 4096;  // of a block

template <class X, class Y>
__global__ void cast_runs(CastList list) {
  constexpr int N = 8;
  const int block = static_cast<int>(blockIdx.x);
  int i = 0;
  while (i + 1 < list.count && list.runs[i + 1].first_block <= block) ++i;
  const CastList::Run& run = list.runs[i];
  const int64_t begin = static_cast<int64_t>(block - run.first_block) * kCastElems;
  const int64_t end = begin + kCastElems < run.length ? begin + kCastElems : run.length;
  for (int64_t at = begin + threadIdx.x * N; at < end; at += kThreads * N) {
    float v[N];
    load_pack<N>(static_cast<const X*>(run.x) + at, left<N>(end, at), run.whole, v);
    store_pack<N>(static_cast<Y*>(run.y) + at, left<N>(end, at), run.whole, v);
  }
}

// x, y [n]
template <class T>
__global__ void drop(DropoutArgs args, const int64_t* step, const T* x, T* y, int64_t n,
                     bool whole) {
  constexpr int N = kPack<T>;  // 4 or 8: one or two counters
  const uint64_t now = static_cast<uint64_t>(*step);
  const int64_t stride = total_threads() * N;
  for (int64_t i = global_thread() * N; i < n; i += stride) {
    float v[N];
    load_pack<N>(x + i, left<N>(n, i), whole, v);
    for (int part = 0; part < N / 4; ++part) {
      uint32_t words[4];
      draw(args, now, i / 4 + part, words);
      for (int k = 0; k < 4; ++k) {
        float& value = v[4 * part + k];
        value = words[k] >= args.drop_below ? value * args.scale : 0.0f;
      }
    }
    store_pack<N>(y + i, left<N>(n, i), whole, v);
  }
}

// A row's packs go to neighbouring threads; the last pack of a row may be short.
// x, residual, pre [rows, channels]; y likewise, with a pitch; bias [channels].
template <class X, class Y>
__global__ void add_epilogue(EpilogueArgs args, bool whole) {
  constexpr int N = kPack<Y>;
  const int64_t packs = (args.channels + N - 1) / N;
  for (int64_t i = global_thread(); i < args.rows * packs; i += total_threads()) {
    const int64_t row = i / packs, first = i % packs * N;
    const int n = left<N>(args.channels, first);
    float v[N];
    load_pack<N>(static_cast<const X*>(args.x) + row * args.channels + first, n, whole, v);
    finish<Y>(args, row, first, n, whole, v);
  }
}

}  // namespace

void fill(Stream stream, float* y, float value, int64_t n) {
  if (n > 0) launch(stream, blocks_for(n), kThreads, fill_value, y, value, n);
}

void arange(Stream stream, int32_t* y, int64_t n, int64_t period, int64_t step) {
  if (n > 0) launch(stream, blocks_for(n), kThreads, count_up, y, n, period, step);
}

void offset_index(Stream stream, const int32_t* index, const int32_t* start, int32_t* y, int64_t n,
                  int64_t of_each) {
  if (n > 0) launch(stream, blocks_for(n), kThreads, offset, index, start, y, n, of_each);
}

void packed_places(Stream stream, const int32_t* length, int32_t* start, int32_t* source,
                   int32_t* target, int64_t sequences, int64_t longest, int64_t capacity) {
  if (sequences == 0) return;
  launch(stream, static_cast<unsigned>(sequences), kThreads, pack_places, length, start, source,
         target, longest, capacity);
}

static_assert(sizeof(CastList) <= 4096, "goes into the arguments of a launch");
bool CastList::append(const void* x, void* y, int64_t length) {
  if (count == kMostRuns) return false;
  runs[count++] = {x, y, length, blocks, on_16_bytes(x, y)};
  blocks += static_cast<int32_t>(ceil_div(length, kCastElems));
  return true;
}

void casts(Stream stream, Element x, Element y, const CastList& list) {
  if (list.blocks == 0) return;
  dispatch(x, [&]<class X>(X) {
    dispatch(y, [&]<class Y>(Y) {
      launch(stream, static_cast<unsigned>(list.blocks), kThreads, cast_runs<X, Y>, list);
    });
  });
}

void dropout(Stream stream, Element element, const DropoutArgs& args, const int64_t* step,
             const void* x, void* y, int64_t n) {
  if (n == 0) return;
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(ceil_div(n, kPack<T>)), kThreads, drop<T>, args, step,
           static_cast<const T*>(x), static_cast<T*>(y), n, on_16_bytes(x, y));
  });
}

void epilogue(Stream stream, Element x, Element y, const EpilogueArgs& args) {
  if (args.rows * args.channels == 0) return;
  dispatch(y, [&]<class Y>(Y) {
    const auto run = [&]<class X>(X) {
      const bool whole = whole_rows<kPack<Y>>(args) && on_16_bytes(args.x);
      const int64_t work = args.rows * ceil_div(args.channels, kPack<Y>);
      launch(stream, blocks_for(work), kThreads, add_epilogue<X, Y>, args, whole);
    };
    x == Element::kF32 ? run(float{}) : run(Y{});
  });
}

}  // namespace assay::cuda::kernels
