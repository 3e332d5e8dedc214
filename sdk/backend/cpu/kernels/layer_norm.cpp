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
  alignas(64) uint32_t words[kPhiloxBlock];
  for (int64_t c = 0; c < channels;) {
    const int64_t element = begin + c, skipped = element % 4;
    draw(dropout, static_cast<uint64_t>(element / 4), words);
    const int64_t n = least(channels - c, kPhiloxBlock - skipped);
    body(c, n, words + skipped);
    c += n;
  }
}

// z = dropout(x) + residual.
template <class T>
void join(const LayerNormArgs& args, int64_t begin, const T* x, const T* residual, T* z) {
  if (args.dropout == nullptr) {
    for_elements(
        args.channels, [=](int64_t c) { store(z[c], load(x[c]) + load(residual[c])); }, x, residual,
        z);
    return;
  }
  const uint32_t drop_below = args.dropout->drop_below;
  const float scale = args.dropout->scale;
  with_words(
      *args.dropout, begin, args.channels, [&](int64_t at, int64_t n, const uint32_t* words) {
        const T* from = x + at;
        T* to = z + at;
        if (residual == nullptr) {
          for_elements(
              n,
              [=](int64_t i) {
                store(to[i], words[i] >= drop_below ? load(from[i]) * scale : 0.0f);
              },
              from, to);
          return;
        }
        const T* more = residual + at;
        for_elements(
            n,
            [=](int64_t i) {
              store(to[i], (words[i] >= drop_below ? load(from[i]) * scale : 0.0f) + load(more[i]));
            },
            from, more, to);
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
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < channels; ++c) sum += load(z[c]);
    const float mean = sum / static_cast<float>(channels);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < channels; ++c) {
      const float d = load(z[c]) - mean;
      squares += d * d;
    }
    const float rstd = 1.0f / root(squares / static_cast<float>(channels) + args.epsilon);
    T* y = static_cast<T*>(args.y) + begin;
    const float *gamma = args.gamma, *beta = args.beta;
    for_elements(
        channels, [=](int64_t c) { store(y[c], (load(z[c]) - mean) * rstd * gamma[c] + beta[c]); },
        z, y);
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
    const auto gradient = [&](int64_t c) {
      const float normal = (load(z[c]) - mean) * rstd;
      return rstd * (load(dy[c]) * args.gamma[c] - mean_g - normal * mean_gx);
    };
    T* dz = static_cast<T*>(args.dz) + begin;
    if (args.dropout == nullptr) {
      for_elements(
          channels, [&](int64_t c) { store(dz[c], gradient(c)); }, dz);
      continue;
    }
    T* dx = static_cast<T*>(args.dx) + begin;
    const uint32_t drop_below = args.dropout->drop_below;
    const float scale = args.dropout->scale;
    with_words(*args.dropout, begin, channels, [&](int64_t at, int64_t n, const uint32_t* words) {
      for_elements(
          n,
          [&](int64_t i) {
            const float d = gradient(at + i);
            store(dz[at + i], d);
            store(dx[at + i], words[i] >= drop_below ? d * scale : 0.0f);
          },
          dz + at, dx + at);
    });
  }
}

}  // namespace

extern const LayerNormKernels kLayerNorm;
const LayerNormKernels kLayerNorm = {{forward<float>, forward<Bf16>},
                                     {backward<float>, backward<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
