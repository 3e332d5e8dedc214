// Tokens drawn, sampled and replaced. Shapes: see kernels.h.
#include "sdk/backend/cuda/kernels/philox.h"
#include "sdk/backend/cuda/kernels/rows.h"

namespace assay::cuda::kernels {
namespace {

constexpr double kWeightOne = 549755813888.0;  // 2^39, of a probability of 1

// Word n of a step.
__device__ inline uint32_t word_of(const uint32_t (&key)[2], int64_t step, int64_t n) {
  const auto s = static_cast<uint64_t>(step);
  const auto block = static_cast<uint64_t>(n / 4);
  uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)};
  philox(words, key[0], key[1]);
  return words[n % 4];
}

__global__ void copy_ids(const int32_t* from, int32_t* to, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) to[i] = from[i];
}

// A thread for each slot. Slots of one position that write write the same.
__global__ void draw_slots(TokenMasking m, const int32_t* ids, const int32_t* length,
                           const int64_t* step, int32_t* masked, int32_t* positions,
                           int32_t* labels) {
  const int64_t i = global_thread();
  if (i >= m.sequences * m.slots) return;
  const int64_t sequence = i / m.slots, slot = i % m.slots;
  const int32_t* from = ids + sequence * m.tokens;
  const auto is_candidate = [&](int64_t t) {
    return from[t] != m.cls && from[t] != m.sep && from[t] != m.mask;
  };
  int64_t n = length[sequence];
  n = n < 0 ? 0 : n > m.tokens ? m.tokens : n;
  int64_t candidates = 0;
  for (int64_t t = 0; t < n; ++t) candidates += is_candidate(t);
  auto drawn = static_cast<int64_t>(rint(m.fraction * static_cast<double>(n)));
  drawn = drawn < 1 ? 1 : drawn > m.slots ? m.slots : drawn;
  positions[i] = 0;
  labels[i] = -1;
  if (candidates == 0 || slot >= drawn) return;
  const auto u = static_cast<uint64_t>(word_of(m.key, *step, 2 * i) >> 8);
  auto left = static_cast<int64_t>(u * static_cast<uint64_t>(candidates) >> 24);
  int64_t position = 0;
  while (!is_candidate(position) || left-- > 0) ++position;
  positions[i] = static_cast<int32_t>(position);
  labels[i] = from[position];
  const float show = static_cast<float>(word_of(m.key, *step, 2 * i + 1) >> 8) * 0x1p-24f;
  if (show < m.shown) masked[sequence * m.tokens + position] = m.mask;
}

__device__ inline uint64_t weight_of(float term) {
  if (!(term - term == 0.0f)) return 0;  // not finite
  return static_cast<uint64_t>(rint(static_cast<double>(term > 1.0f ? 1.0f : term) * kWeightOne));
}

// A block for each row; a thread has a range of its ids, so that sums before it are in their order.
template <class T>
__global__ void sample(DrawKey key, const T* logits, const int64_t* step, int32_t* y,
                       int64_t classes) {
  __shared__ float shared[kThreads];
  __shared__ uint64_t sums[kThreads];
  const int64_t r = blockIdx.x;
  const T* x = logits + r * classes;
  const Rows whole{1, classes, kThreads};
  const int t = static_cast<int>(threadIdx.x);
  const int64_t each = (classes + kThreads - 1) / kThreads;
  const int64_t begin = t * each < classes ? t * each : classes;
  const int64_t end = begin + each < classes ? begin + each : classes;
  float largest = -INFINITY;
  for (int64_t v = begin; v < end; ++v) largest = load(x[v]) > largest ? load(x[v]) : largest;
  largest = row_reduce(whole, largest, shared, Larger{});
  float sum = 0;
  for (int64_t v = begin; v < end; ++v) sum += expf(load(x[v]) - largest);
  const float logsumexp = largest + logf(row_reduce(whole, sum, shared, Plus{}));
  uint64_t own = 0;
  for (int64_t v = begin; v < end; ++v) own += weight_of(expf(load(x[v]) - logsumexp));
  sums[t] = own;
  __syncthreads();
  uint64_t before = 0, total = 0;
  for (int k = 0; k < kThreads; ++k) {
    before += k < t ? sums[k] : 0;
    total += sums[k];
  }
  const uint64_t below = static_cast<uint64_t>(word_of(key.key, *step, r) >> 8) * total;
  if (total == 0 && t == 0) y[r] = 0;
  // One thread's range crosses the bound.
  if (before << 24 > below || (before + own) << 24 <= below) return;
  for (int64_t v = begin; v < end; ++v) {
    before += weight_of(expf(load(x[v]) - logsumexp));
    if (before << 24 > below) {
      y[r] = static_cast<int32_t>(v);
      return;
    }
  }
}

// A thread for each slot; slots of one position write the same.
__global__ void put_samples(TokenSlots s, const int32_t* positions, const int32_t* labels,
                            const int32_t* samples, int32_t* corrupted) {
  const int64_t i = global_thread();
  if (i >= s.sequences * s.slots || labels[i] < 0 || positions[i] < 0 || positions[i] >= s.tokens)
    return;
  const int64_t sequence = i / s.slots;
  int64_t sum = 0, count = 0;
  for (int64_t k = sequence * s.slots; k < (sequence + 1) * s.slots; ++k) {
    if (labels[k] < 0 || positions[k] != positions[i]) continue;
    sum += samples[k];
    ++count;
  }
  corrupted[sequence * s.tokens + positions[i]] = static_cast<int32_t>(sum / count);
}

__global__ void mark_replaced(TokenSlots s, const int32_t* ids, const int32_t* length,
                              const int32_t* corrupted, int32_t* replaced) {
  const int64_t n = s.sequences * s.tokens;
  for (int64_t i = global_thread(); i < n; i += total_threads())
    replaced[i] = i % s.tokens < length[i / s.tokens] ? corrupted[i] != ids[i] : -1;
}

}  // namespace

void mask_tokens(Stream stream, const TokenMasking& m, const int32_t* ids, const int32_t* length,
                 const int64_t* step, int32_t* masked, int32_t* positions, int32_t* labels) {
  const int64_t n = m.sequences * m.tokens;
  launch(stream, blocks_for(n), kThreads, copy_ids, ids, masked, n);
  launch(stream, static_cast<unsigned>(ceil_div(m.sequences * m.slots, kThreads)), kThreads,
         draw_slots, m, ids, length, step, masked, positions, labels);
}

void sample_tokens(Stream stream, Element element, const DrawKey& key, const void* logits,
                   const int64_t* step, int32_t* y, int64_t rows, int64_t classes) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, static_cast<unsigned>(rows), kThreads, sample<T>, key,
           static_cast<const T*>(logits), step, y, classes);
  });
}

void replace_tokens(Stream stream, const TokenSlots& s, const int32_t* ids, const int32_t* length,
                    const int32_t* positions, const int32_t* labels, const int32_t* samples,
                    int32_t* corrupted, int32_t* replaced) {
  const int64_t n = s.sequences * s.tokens;
  launch(stream, blocks_for(n), kThreads, copy_ids, ids, corrupted, n);
  launch(stream, static_cast<unsigned>(ceil_div(s.sequences * s.slots, kThreads)), kThreads,
         put_samples, s, positions, labels, samples, corrupted);
  launch(stream, blocks_for(n), kThreads, mark_replaced, s, ids, length, corrupted, replaced);
}

}  // namespace assay::cuda::kernels
