// Layer normalisation: several threads share a row (rows.h), each moving packs of 16 bytes. Sums
// over a row are f32; z is rounded to its type before it is looked at, as the gradient will find
// it. Sums by channel go over ranges of rows first, in f32, then over the ranges in their order, in
// f64. Shapes: see kernels.h; partial [ranges, 2, channels].
#include "sdk/backend/cuda/kernels/philox.h"
#include "sdk/backend/cuda/kernels/rows.h"

namespace assay::cuda::kernels {
namespace {

constexpr int64_t kRangeRows = 64;

// body(c, n) for each pack of the row that belongs to this thread: elements c to c + n - 1.
template <int N, class Body>
__device__ void for_packs(const Rows& r, const Body& body) {
  for (int64_t c = r.lane() * N; c < r.size; c += static_cast<int64_t>(r.width) * N)
    body(c, r.size - c < N ? static_cast<int>(r.size - c) : N);
}

// v [N], elements from `begin` of the tensor on.
template <int N>
__device__ void drop(const RowDropout& dropout, int64_t begin, float (&v)[N]) {
  const auto step = static_cast<uint64_t>(*dropout.step);
  uint32_t words[4];
  for (int k = 0; k < N; ++k) {
    const int64_t element = begin + k;
    if (k == 0 || element % 4 == 0) draw(dropout.args, step, element / 4, words);
    v[k] = words[element % 4] >= dropout.args.drop_below ? v[k] * dropout.args.scale : 0.0f;
  }
}

// z = dropout(x) + residual, of this thread's packs.
template <class T>
__device__ void join(const Rows& r, const LayerNormArgs& args, int64_t begin, bool whole) {
  constexpr int N = kPack<T>;
  const T* x = static_cast<const T*>(args.x) + begin;
  T* z = static_cast<T*>(args.z) + begin;
  for_packs<N>(r, [&](int64_t c, int n) {
    float v[N];
    load_pack<N>(x + c, n, whole, v);
    if (args.dropout.step != nullptr) drop<N>(args.dropout, begin + c, v);
    if (args.residual != nullptr) {
      float more[N];
      load_pack<N>(static_cast<const T*>(args.residual) + begin + c, n, whole, more);
      for (int k = 0; k < N; ++k) v[k] += more[k];
    }
    store_pack<N>(z + c, n, whole, v);
  });
}

template <class T>
__global__ void normalise(Rows r, LayerNormArgs args, bool whole) {
  constexpr int N = kPack<T>;
  __shared__ float shared[kThreads];
  const int64_t row = r.row(), begin = row * r.size;
  const bool has_row = row < r.rows;
  if (has_row && args.z != nullptr) join<T>(r, args, begin, whole);
  const T* z = static_cast<const T*>(args.z != nullptr ? args.z : args.x) + begin;
  float sum = 0;
  if (has_row) {
    for_packs<N>(r, [&](int64_t c, int n) {
      float v[N];
      load_pack<N>(z + c, n, whole, v);
      for (int k = 0; k < N; ++k) sum += v[k];  // 0 beyond the row
    });
  }
  const float mean = row_reduce(r, sum, shared, Plus{}) / static_cast<float>(r.size);
  float squares = 0;
  if (has_row) {
    for_packs<N>(r, [&](int64_t c, int n) {
      float v[N];
      load_pack<N>(z + c, n, whole, v);
      for (int k = 0; k < n; ++k) squares += (v[k] - mean) * (v[k] - mean);
    });
  }
  const float variance = row_reduce(r, squares, shared, Plus{}) / static_cast<float>(r.size);
  if (!has_row) return;
  const float rstd = 1.0f / sqrtf(variance + args.epsilon);
  T* y = static_cast<T*>(args.y) + begin;
  for_packs<N>(r, [&](int64_t c, int n) {
    float v[N], gamma[N], beta[N];
    load_pack<N>(z + c, n, whole, v);
    load_pack<N>(args.gamma + c, n, whole, gamma);
    load_pack<N>(args.beta + c, n, whole, beta);
    for (int k = 0; k < N; ++k) v[k] = (v[k] - mean) * rstd * gamma[k] + beta[k];
    store_pack<N>(y + c, n, whole, v);
  });
  if (r.lane() == 0) args.mean[row] = mean, args.rstd[row] = rstd;
}

// With x' = (z - mean) * rstd and g = dy * gamma: dz = rstd * (g - mean(g) - x' * mean(g * x')).
template <class T>
__global__ void gradient(Rows r, LayerNormGradArgs args, bool whole) {
  constexpr int N = kPack<T>;
  __shared__ float shared[kThreads];
  const int64_t row = r.row(), begin = row * r.size;
  const bool has_row = row < r.rows;
  const T* z = static_cast<const T*>(args.z) + begin;
  const T* dy = static_cast<const T*>(args.dy) + begin;
  const float mean = has_row ? args.mean[row] : 0, rstd = has_row ? args.rstd[row] : 0;
  // normal = x', g = dy * gamma, of one pack.
  const auto load_terms = [&](int64_t c, int n, float(&normal)[N], float(&g)[N]) {
    float gamma[N];
    load_pack<N>(z + c, n, whole, normal);
    load_pack<N>(dy + c, n, whole, g);
    load_pack<N>(args.gamma + c, n, whole, gamma);
    for (int k = 0; k < N; ++k) normal[k] = (normal[k] - mean) * rstd, g[k] *= gamma[k];
  };
  float sum_g = 0, sum_gx = 0;
  if (has_row) {
    for_packs<N>(r, [&](int64_t c, int n) {
      float normal[N], g[N];
      load_terms(c, n, normal, g);
      for (int k = 0; k < N; ++k) sum_g += g[k], sum_gx += g[k] * normal[k];  // g is 0 beyond
    });
  }
  const float mean_g = row_reduce(r, sum_g, shared, Plus{}) / static_cast<float>(r.size);
  const float mean_gx = row_reduce(r, sum_gx, shared, Plus{}) / static_cast<float>(r.size);
  if (!has_row) return;
  for_packs<N>(r, [&](int64_t c, int n) {
    float normal[N], g[N];
    load_terms(c, n, normal, g);
    for (int k = 0; k < N; ++k) g[k] = rstd * (g[k] - mean_g - normal[k] * mean_gx);
    store_pack<N>(static_cast<T*>(args.dz) + begin + c, n, whole, g);
    if (args.dropout.step == nullptr) return;
    drop<N>(args.dropout, begin + c, g);
    store_pack<N>(static_cast<T*>(args.dx) + begin + c, n, whole, g);
  });
}

// partial[range] = sums of dy * x' and of dy over the rows of the range; a thread has a channel.
// Runs before dz is written, which may be z or dy.
template <class T>
__global__ void channel_sums(LayerNormGradArgs args, float* partial) {
  const int64_t c = global_thread(), range = blockIdx.y;
  if (c >= args.channels) return;
  const int64_t end = (range + 1) * kRangeRows < args.rows ? (range + 1) * kRangeRows : args.rows;
  float dgamma = 0, dbeta = 0;
  for (int64_t row = range * kRangeRows; row < end; ++row) {
    const float d = load(static_cast<const T*>(args.dy)[row * args.channels + c]);
    const float z = load(static_cast<const T*>(args.z)[row * args.channels + c]);
    dgamma += d * ((z - args.mean[row]) * args.rstd[row]);
    dbeta += d;
  }
  partial[2 * range * args.channels + c] = dgamma;
  partial[(2 * range + 1) * args.channels + c] = dbeta;
}

__global__ void finish_channel_sums(LayerNormGradArgs args, int64_t ranges, const float* partial) {
  const int64_t c = global_thread();
  if (c >= args.channels) return;
  double dgamma = 0, dbeta = 0;
  for (int64_t range = 0; range < ranges; ++range) {
    dgamma += static_cast<double>(partial[2 * range * args.channels + c]);
    dbeta += static_cast<double>(partial[(2 * range + 1) * args.channels + c]);
  }
  args.dgamma[c] = static_cast<float>(dgamma);
  args.dbeta[c] = static_cast<float>(dbeta);
}

int64_t ranges_of(int64_t rows) { return ceil_div(rows, kRangeRows); }

template <class T>
bool whole_rows(int64_t channels) {
  return channels % kPack<T> == 0;
}

}  // namespace

void layer_norm(Stream stream, Element element, const LayerNormArgs& args) {
  const Rows r = rows_of(args.rows, args.channels);
  dispatch(element, [&]<class T>(T) {
    const bool whole = whole_rows<T>(args.channels) &&
                       on_16_bytes(args.x, args.residual, args.gamma, args.beta, args.y, args.z);
    launch(stream, blocks_of(r), kThreads, normalise<T>, r, args, whole);
  });
}

size_t layer_norm_sums_bytes(int64_t rows, int64_t channels) {
  return static_cast<size_t>(2 * ranges_of(rows) * channels) * sizeof(float);
}

void layer_norm_grad(Stream stream, Element element, const LayerNormGradArgs& args,
                     float* partial) {
  const Rows r = rows_of(args.rows, args.channels);
  const int64_t ranges = ranges_of(args.rows);
  const auto columns = static_cast<unsigned>(ceil_div(args.channels, kThreads));
  dispatch(element, [&]<class T>(T) {
    launch(stream, dim3(columns, static_cast<unsigned>(ranges)), kThreads, channel_sums<T>, args,
           partial);
    launch(stream, columns, kThreads, finish_channel_sums, args, ranges, partial);
    const bool whole =
        whole_rows<T>(args.channels) && on_16_bytes(args.z, args.dy, args.gamma, args.dz, args.dx);
    launch(stream, blocks_of(r), kThreads, gradient<T>, r, args, whole);
  });
}

}  // namespace assay::cuda::kernels
