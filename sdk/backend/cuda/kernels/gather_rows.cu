// Sums of rows of tables, and what comes back to a row. For that the places that ask for rows are
// sorted by row, stably, eight bits at a time: a block counts the digits of its places, one block
// adds the counts up, and each block puts its places where they belong, in order; thread d looks
// after digit d. So a row's sum has one owner and one order: no atomics. Where many ask for one row
// its sum is that of the sums of chunks of the sorted list.
// Shapes: see kernels.h.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kDigits = 256;  // a thread each
constexpr int64_t kBlockPlaces = 512;

template <class X, class Y>
__global__ void gather(GatherArgs args, Y* y) {
  for (int64_t i = global_thread(); i < args.places * args.size; i += total_threads()) {
    const int64_t place = i / args.size, c = i % args.size;
    float sum = 0;
    for (int k = 0; k < args.tables; ++k) {
      const int64_t row = args.index[k][place];
      if (row < 0 || row >= args.rows[k]) continue;
      const float x = load(static_cast<const X*>(args.table[k])[row * args.size + c]);
      sum = k == 0 ? x : sum + x;
    }
    store(y[i], sum);
  }
}

// What is sorted: a place by the row it asks for; those that ask for none come last, as row `rows`.
__global__ void list_places(const int32_t* index, int64_t places, int64_t rows, Places out) {
  for (int64_t p = global_thread(); p < places; p += total_threads()) {
    const int32_t row = index[p];
    out.row[p] = row >= 0 && row < rows ? row : static_cast<int32_t>(rows);
    out.place[p] = static_cast<int32_t>(p);
  }
}

// visit(i) for the places of this block whose digit is this thread's number, in order.
template <class Visit>
__device__ void for_digit(const Places& in, int64_t places, int shift, int* digits,
                          const Visit& visit) {
  const auto t = static_cast<int>(threadIdx.x);
  const int64_t begin = blockIdx.x * kBlockPlaces;
  for (int64_t first = begin; first < begin + kBlockPlaces && first < places; first += kDigits) {
    digits[t] = first + t < places ? (in.row[first + t] >> shift) % kDigits : -1;
    __syncthreads();
    for (int i = 0; i < kDigits; ++i)
      if (digits[i] == t) visit(first + i);
    __syncthreads();
  }
}

// counts[digit][block]
__global__ void count_digits(Places in, int64_t places, int shift, int32_t* counts) {
  __shared__ int digits[kDigits];
  int32_t count = 0;
  for_digit(in, places, shift, digits, [&](int64_t) { ++count; });
  counts[threadIdx.x * gridDim.x + blockIdx.x] = count;
}

// Each count becomes the sum of those before it; one block.
__global__ void add_up(int32_t* counts, int64_t blocks) {
  __shared__ int32_t totals[kDigits];
  const auto t = static_cast<int>(threadIdx.x);
  int32_t* mine = counts + t * blocks;
  int32_t total = 0;
  for (int64_t b = 0; b < blocks; ++b) total += mine[b];
  totals[t] = total;
  __syncthreads();
  int32_t before = 0;
  for (int i = 0; i < t; ++i) before += totals[i];
  for (int64_t b = 0; b < blocks; ++b) {
    const int32_t count = mine[b];
    mine[b] = before;
    before += count;
  }
}

__global__ void put_places(Places in, int64_t places, int shift, const int32_t* counts,
                           Places out) {
  __shared__ int digits[kDigits];
  int32_t to = counts[threadIdx.x * gridDim.x + blockIdx.x];
  for_digit(in, places, shift, digits, [&](int64_t i) {
    out.row[to] = in.row[i];
    out.place[to] = in.place[i];
    ++to;
  });
}

// bounds[row][2] = where its places begin and end; both are 0 already for rows without any.
__global__ void find_rows(Places sorted, int64_t places, int64_t rows, int32_t* bounds) {
  for (int64_t i = global_thread(); i < places; i += total_threads()) {
    const int64_t row = sorted.row[i];
    if (row == rows) continue;
    if (i == 0 || sorted.row[i - 1] != row) bounds[2 * row] = static_cast<int32_t>(i);
    if (i == places - 1 || sorted.row[i + 1] != row)
      bounds[2 * row + 1] = static_cast<int32_t>(i + 1);
  }
}

constexpr int N = 8;            // channels of a thread
constexpr int64_t kChunk = 64;  // places in their order that a thread adds up

__device__ inline bool is_long(int32_t begin, int32_t end) {
  return begin < end && begin / kChunk != (end - 1) / kChunk;
}

// Adds what arrived at the places [begin, end) of the sorted list, in order; several are read
// before the first of them is used.
template <class X>
__device__ void add_places(const CollectArgs& args, const int32_t* place, int32_t begin,
                           int32_t end, int64_t c, int n, bool whole, float (&sum)[N]) {
  constexpr int kBatch = 4;
  ASSAY_ROLLED
  for (int32_t first = begin; first < end; first += kBatch) {
    float v[kBatch][N] = {};
    ASSAY_UNROLLED
    for (int k = 0; k < kBatch; ++k) {
      if (first + k < end)
        load_pack<N>(static_cast<const X*>(args.dy) + place[first + k] * args.size + c, n, whole,
                     v[k]);
    }
    ASSAY_UNROLLED
    for (int k = 0; k < kBatch; ++k) {
      if (first + k < end)
        for (int i = 0; i < N; ++i) sum[i] += v[k][i];
    }
  }
}

// body(j, c, n) for each of `count` rows or chunks and each pack of channels, a thread each.
template <class Body>
__device__ void for_packs(int64_t count, int64_t size, const Body& body) {
  const int64_t packs = (size + N - 1) / N;
  for (int64_t i = global_thread(); i < count * packs; i += total_threads()) {
    const int64_t j = i / packs, c = (i - j * packs) * N;
    body(j, c, size - c < N ? static_cast<int>(size - c) : N);
  }
}

template <class Y>
__device__ void start_at_addend(const CollectArgs& args, int64_t at, int n, bool whole,
                                float (&sum)[N]) {
  for (int i = 0; i < N; ++i) sum[i] = 0;
  if (args.addend != nullptr) load_pack<N>(static_cast<const Y*>(args.addend) + at, n, whole, sum);
}

// Rows all of whose places lie in one chunk, or that have none.
template <class X, class Y>
__global__ void collect(CollectArgs args, const int32_t* place, const int32_t* bounds, Y* y,
                        bool whole) {
  for_packs(args.rows, args.size, [&](int64_t row, int64_t c, int n) {
    const int32_t begin = bounds[2 * row], end = bounds[2 * row + 1];
    if ((begin == end && args.addend == y) || is_long(begin, end)) return;
    float sum[N];
    start_at_addend<Y>(args, row * args.size + c, n, whole, sum);
    add_places<X>(args, place, begin, end, c, n, whole, sum);
    store_pack<N>(y + row * args.size + c, n, whole, sum);
  });
}

// partial[chunk][2][size]: of the row of the chunk's first place, and of the row of its last if
// that is another one, as far as they are long.
template <class X>
__global__ void add_up_chunks(CollectArgs args, int64_t chunks, Places sorted,
                              const int32_t* bounds, float* partial, bool whole) {
  for_packs(chunks, args.size, [&](int64_t chunk, int64_t c, int n) {
    const auto begin = static_cast<int32_t>(chunk * kChunk);
    const auto end =
        static_cast<int32_t>(begin + kChunk < args.places ? begin + kChunk : args.places);
    const int32_t rows[2] = {sorted.row[begin], sorted.row[end - 1]};
    for (int k = 0; k < 2; ++k) {
      if (rows[k] == args.rows || (k == 1 && rows[1] == rows[0])) continue;
      const int32_t first = bounds[2 * rows[k]], last = bounds[2 * rows[k] + 1];
      if (!is_long(first, last)) continue;
      float sum[N] = {};
      add_places<X>(args, sorted.place, first > begin ? first : begin, last < end ? last : end, c,
                    n, whole, sum);
      store_pack<N>(partial + (2 * chunk + k) * args.size + c, n, whole, sum);
    }
  });
}

// Long rows, by the chunk that they begin in, whose last one they are.
template <class Y>
__global__ void collect_long(CollectArgs args, int64_t chunks, Places sorted, const int32_t* bounds,
                             const float* partial, Y* y, bool whole) {
  for_packs(chunks, args.size, [&](int64_t chunk, int64_t c, int n) {
    const int64_t end = (chunk + 1) * kChunk < args.places ? (chunk + 1) * kChunk : args.places;
    const int64_t row = sorted.row[end - 1];
    if (row == args.rows) return;
    const int32_t first = bounds[2 * row], last = bounds[2 * row + 1];
    if (!is_long(first, last) || first / kChunk != chunk) return;
    float sum[N], v[N];
    start_at_addend<Y>(args, row * args.size + c, n, whole, sum);
    for (int64_t k = chunk; k <= (last - 1) / kChunk; ++k) {
      const bool begins_inside = k == chunk && sorted.row[chunk * kChunk] != row;
      load_pack<N>(partial + (2 * k + begins_inside) * args.size + c, n, whole, v);
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
    store_pack<N>(y + row * args.size + c, n, whole, sum);
  });
}

__global__ void clear(int32_t* x, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) x[i] = 0;
}

int64_t blocks_of(int64_t places) { return ceil_div(places, kBlockPlaces); }

// Bits in which rows 0 to `rows` differ.
int bits_of(int64_t rows) {
  int bits = 0;
  while (rows >> bits != 0) ++bits;
  return bits;
}

}  // namespace

int64_t digit_counts(int64_t places) { return kDigits * blocks_of(places); }

int64_t chunk_sums(int64_t places, int64_t size) { return 2 * ceil_div(places, kChunk) * size; }

void gather_rows(Stream stream, Element x, Element y_element, const GatherArgs& args, void* y) {
  dispatch(x, [&]<class X>(X) {
    dispatch(y_element, [&]<class Y>(Y) {
      launch(stream, blocks_for(args.places * args.size), kThreads, gather<X, Y>, args,
             static_cast<Y*>(y));
    });
  });
}

void collect_rows(Stream stream, Element x, Element y_element, const CollectArgs& args,
                  const CollectScratch& scratch, void* y) {
  Places from = scratch.places[0], to = scratch.places[1];
  const auto blocks = static_cast<unsigned>(blocks_of(args.places));
  launch(stream, blocks_for(args.places), kThreads, list_places, args.index, args.places, args.rows,
         from);
  for (int shift = 0; shift < bits_of(args.rows); shift += 8) {
    launch(stream, blocks, kDigits, count_digits, from, args.places, shift, scratch.counts);
    launch(stream, 1, kDigits, add_up, scratch.counts, static_cast<int64_t>(blocks));
    launch(stream, blocks, kDigits, put_places, from, args.places, shift, scratch.counts, to);
    const Places sorted = to;
    to = from, from = sorted;
  }
  launch(stream, blocks_for(2 * args.rows), kThreads, clear, scratch.bounds, 2 * args.rows);
  launch(stream, blocks_for(args.places), kThreads, find_rows, from, args.places, args.rows,
         scratch.bounds);
  dispatch(x, [&]<class X>(X) {
    dispatch(y_element, [&]<class Y>(Y) {
      const bool whole = args.size % N == 0 && on_16_bytes(args.dy, args.addend, y);
      const int64_t packs = ceil_div(args.size, N), chunks = ceil_div(args.places, kChunk);
      launch(stream, blocks_for(args.rows * packs), kThreads, collect<X, Y>, args, from.place,
             scratch.bounds, static_cast<Y*>(y), whole);
      launch(stream, blocks_for(chunks * packs), kThreads, add_up_chunks<X>, args, chunks, from,
             scratch.bounds, scratch.partial, whole);
      launch(stream, blocks_for(chunks * packs), kThreads, collect_long<Y>, args, chunks, from,
             scratch.bounds, scratch.partial, static_cast<Y*>(y), whole);
    });
  });
}

}  // namespace assay::cuda::kernels
