// Layer normalisation, row by row: a row stays in the first-level cache through its passes. Sums
// over a row are f32 lanes; z is rounded to its type before it is looked at, as the gradient will
// find it.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/philox_words.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// body(c, n, words) for stretches of the row whose element 0 is element `begin` of the tensor:
// words[i] is the draw of element c + i.
template <class Body>
void with_words(const DropoutRange& dropout, int64_t begin, int64_t channels, const Body& body) {
  PhiloxWords words;
  for (int64_t c = 0; c < channels;) {
    const int64_t element = begin + c, skipped = element % 4;
    draw(dropout, static_cast<uint64_t>(element / 4), words.word);
    const int64_t n = least(channels - c, kPhiloxBlock - skipped);
    body(c, n, words.word + skipped);
    c += n;
  }
}

// z = dropout(x) + residual.
template <class T>
void join(const LayerNormArgs& args, int64_t begin, const T* x, const T* residual, T* z) {
  if (args.dropout == nullptr) {
    for_vectors(args.channels, [=](int64_t c, int64_t n) {
      stream_lanes(z + c, stream_lanes(x + c, n) + stream_lanes(residual + c, n), n);
    });
    return;
  }
  with_words(*args.dropout, begin, args.channels,
             [&](int64_t at, int64_t count, const uint32_t* words) {
               for_vectors(count, [&](int64_t i, int64_t n) {
                 Vec v = drop(*args.dropout, words + i, stream_lanes(x + at + i, n));
                 if (residual != nullptr) v += stream_lanes(residual + at + i, n);
                 stream_lanes(z + at + i, v, n);
               });
             });
}

template <class T>
void forward(const LayerNormArgs& args, int64_t first, int64_t rows) {
  const int64_t channels = args.channels;
  for (int64_t r = first; r < first + rows; ++r) {
    const int64_t begin = r * channels;
    const T* z = static_cast<const T*>(args.x) + begin;
    if (args.z != nullptr) {
      T* joined = static_cast<T*>(args.z) + begin;
      const T* residual = static_cast<const T*>(args.residual);
      join(args, begin, z, residual == nullptr ? nullptr : residual + begin, joined);
      z = joined;
    }
    Vec sum{};
    for_vectors(channels, [&](int64_t c, int64_t n) { sum += load_lanes(z + c, n); });
    const float mean = sum_of_lanes(sum) / static_cast<float>(channels);
    Vec squares{};
    for_vectors(channels, [&](int64_t c, int64_t n) {
      const Vec d = first_lanes(load_lanes(z + c, n) - mean, n);
      squares += d * d;
    });
    const float variance = sum_of_lanes(squares) / static_cast<float>(channels);
    const float rstd = 1.0f / root(variance + args.epsilon);
    T* y = static_cast<T*>(args.y) + begin;
    for_vectors(channels, [&](int64_t c, int64_t n) {
      const Vec normal = (stream_lanes(z + c, n) - mean) * rstd;
      const Vec gamma = load_lanes(args.gamma + c, n), beta = load_lanes(args.beta + c, n);
      stream_lanes(y + c, normal * gamma + beta, n);
    });
    args.mean[r] = mean;
    args.rstd[r] = rstd;
  }
}

// With x' = (z - mean) * rstd and g = dy * gamma: dz = rstd * (g - mean(g) - x' * mean(g * x')).
template <class T>
void backward(const LayerNormGradArgs& args, int64_t first, int64_t rows, float* dgamma,
              float* dbeta) {
  const int64_t channels = args.channels;
  for (int64_t c = 0; c < channels; ++c) dgamma[c] = dbeta[c] = 0;
  for (int64_t r = first; r < first + rows; ++r) {
    const int64_t begin = r * channels;
    const T* z = static_cast<const T*>(args.z) + begin;
    const T* dy = static_cast<const T*>(args.dy) + begin;
    const float mean = args.mean[r], rstd = args.rstd[r];
    // Lanes behind the row are zero, and so is what they add.
    Vec sum_g{}, sum_gx{};
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t n = channels - c;
      const Vec d = stream_lanes(dy + c, n), normal = (stream_lanes(z + c, n) - mean) * rstd;
      store_lanes(dgamma + c, load_lanes(dgamma + c, n) + d * normal, n);
      store_lanes(dbeta + c, load_lanes(dbeta + c, n) + d, n);
      const Vec g = d * load_lanes(args.gamma + c, n);
      sum_g += g;
      sum_gx += g * normal;
    }
    const float mean_g = sum_of_lanes(sum_g) / static_cast<float>(channels);
    const float mean_gx = sum_of_lanes(sum_gx) / static_cast<float>(channels);
    const auto gradient = [&](int64_t c, int64_t n) {
      const Vec normal = (load_lanes(z + c, n) - mean) * rstd;
      const Vec g = load_lanes(dy + c, n) * load_lanes(args.gamma + c, n);
      return rstd * (g - mean_g - normal * mean_gx);
    };
    T* dz = static_cast<T*>(args.dz) + begin;
    if (args.dropout == nullptr) {
      for_vectors(channels, [&](int64_t c, int64_t n) { stream_lanes(dz + c, gradient(c, n), n); });
      continue;
    }
    T* dx = static_cast<T*>(args.dx) + begin;
    with_words(*args.dropout, begin, channels,
               [&](int64_t at, int64_t count, const uint32_t* words) {
                 for_vectors(count, [&](int64_t i, int64_t n) {
                   const Vec d = gradient(at + i, n);
                   stream_lanes(dz + at + i, d, n);
                   stream_lanes(dx + at + i, drop(*args.dropout, words + i, d), n);
                 });
               });
  }
}

}  // namespace

extern const LayerNormKernels kLayerNorm;
const LayerNormKernels kLayerNorm = {{forward<float>, forward<Bf16>},
                                     {backward<float>, backward<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
