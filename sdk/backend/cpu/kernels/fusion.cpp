// Weighted sums of images of which some have half the size: runs of elements, computed in f32 in a
// block of the first-level cache.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kBlock = 512;

bool has_half(const FusionArgs& args) {
  bool found = false;
  for (int i = 0; i < args.count; ++i) found = found || args.is_half[i];
  return found;
}

// sum of share * x over n elements, n <= kBlock: of full images from `at` on, of halved ones from
// `half_at` on.
template <class T>
[[gnu::flatten]] void add_up(const FusionArgs& args, int64_t at, int64_t half_at, int64_t n,
                             float* sum) {
  for (int i = 0; i < args.count; ++i) {
    const T* x = static_cast<const T*>(args.x[i]) + (args.is_half[i] ? half_at : at);
    const float share = args.share[i];
    for_vectors(n, [&](int64_t c, int64_t count) {
      const Vec v = stream_lanes(x + c, count);
      const Vec total = i == 0 ? v * share : fma(v, share, load_lanes(sum + c, count));
      store_lanes(sum + c, total, count);
    });
  }
}

// body(at, n) for blocks of the elements [begin, end).
template <class Body>
void for_blocks(int64_t begin, int64_t end, const Body& body) {
  for (int64_t at = begin; at < end; at += kBlock) body(at, least(end - at, kBlock));
}

// body(at, half_at, n) for blocks of the channels of each pixel of a halved image in these rows; at
// is that of the first of its four pixels.
template <class Body>
void for_halved_pixels(const FusionArgs& args, int64_t begin, int64_t end, const Body& body) {
  const int64_t columns = args.width / 2;
  for (int64_t row = begin / 2; row < end / 2; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t half_at = (row * columns + column) * args.channels;
      const int64_t at = 2 * (row * args.width + column) * args.channels;
      for_blocks(0, args.channels, [&](int64_t c, int64_t n) { body(at + c, half_at + c, n); });
    }
  }
}

// Where the four pixels stand that a halved one stands for.
struct FourPixels {
  int64_t at[4];
  FourPixels(const FusionArgs& args, int64_t first)
      : at{first, first + args.channels, first + args.width * args.channels,
           first + (args.width + 1) * args.channels} {}
};

template <class T>
[[gnu::flatten]] void fuse(const FusionArgs& args, int64_t at, int64_t half_at, int64_t n, T* y) {
  alignas(64) float sum[kBlock];
  add_up<T>(args, at, half_at, n, sum);
  if (args.activation == ActivationKind::kSwish) {
    for_vectors(n, [&](int64_t c, int64_t count) {
      const Vec v = load_lanes(sum + c, count);
      store_lanes(y + at + c, v * sigmoid(v), count);
    });
  } else {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) store(y[at + c], sum[c]);
  }
}

template <class T>
void forward(const FusionArgs& args, void* y, int64_t begin, int64_t end) {
  T* const out = static_cast<T*>(y);
  if (has_half(args)) {
    for_halved_pixels(args, begin, end, [&](int64_t first, int64_t half_at, int64_t n) {
      for (const int64_t at : FourPixels(args, first).at) fuse<T>(args, at, half_at, n, out);
    });
    return;
  }
  const int64_t row = args.width * args.channels;
  for_blocks(begin * row, end * row, [&](int64_t at, int64_t n) { fuse<T>(args, at, 0, n, out); });
}

// g of one block.
template <class T>
[[gnu::flatten]] void differentiate(const FusionArgs& args, const T* dy, int64_t at,
                                    int64_t half_at, int64_t n, float* g) {
  if (args.activation == ActivationKind::kSwish) {
    add_up<T>(args, at, half_at, n, g);
    for_vectors(n, [&](int64_t c, int64_t count) {
      const Vec v = load_lanes(g + c, count), s = sigmoid(v);
      store_lanes(g + c, load_lanes(dy + at + c, count) * s * fma(v, 1.0f - s, 1.0f), count);
    });
  } else {
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) g[c] = load(dy[at + c]);
  }
}

// dx = share * g of the images that are halved, or of those that are not; adds up x * g.
template <class T>
void share_out(const FusionArgs& args, bool of_halved, int64_t at, int64_t n, const float* g,
               void* const* dx, double* sums) {
  for (int i = 0; i < args.count; ++i) {
    if (args.is_half[i] != of_halved) continue;
    const T* x = static_cast<const T*>(args.x[i]) + at;
    T* d = static_cast<T*>(dx[i]) + at;
    const float share = args.share[i];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; ++c) {
      sum += load(x[c]) * g[c];
      store(d[c], share * g[c]);
    }
    sums[i] += static_cast<double>(sum);
  }
}

template <class T>
void backward(const FusionArgs& args, const void* dy, void* const* dx, int64_t begin, int64_t end,
              double* sums) {
  const T* const from = static_cast<const T*>(dy);
  for (int i = 0; i < args.count; ++i) sums[i] = 0;
  alignas(64) float g[kBlock];
  if (!has_half(args)) {
    const int64_t row = args.width * args.channels;
    for_blocks(begin * row, end * row, [&](int64_t at, int64_t n) {
      differentiate(args, from, at, 0, n, g);
      share_out<T>(args, false, at, n, g, dx, sums);
    });
    return;
  }
  alignas(64) float total[kBlock];
  for_halved_pixels(args, begin, end, [&](int64_t first, int64_t half_at, int64_t n) {
    for (int64_t c = 0; c < n; ++c) total[c] = 0;
    for (const int64_t at : FourPixels(args, first).at) {
      differentiate(args, from, at, half_at, n, g);
      share_out<T>(args, false, at, n, g, dx, sums);
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) total[c] += g[c];
    }
    share_out<T>(args, true, half_at, n, total, dx, sums);
  });
}

}  // namespace

extern const FusionKernels kFusion;
const FusionKernels kFusion = {{forward<float>, forward<Bf16>}, {backward<float>, backward<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
