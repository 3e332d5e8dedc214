// One fused pass over parameters, gradients and moments per optimizer. Arrays are f32 [n], element
// i of each belonging to element i of the others; their ranges do not overlap.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// f64, so that squares of any f32 stay finite and the sum is not finite only if an element is not.
[[gnu::flatten]] double sum_squares(const float* x, int64_t n) {
  typedef double Doubles __attribute__((vector_size(ASSAY_LANES * 8)));
  Doubles sums{};
  for_vectors(n, [&](int64_t i, int64_t count) {
    const auto v = __builtin_convertvector(stream_lanes(x + i, count), Doubles);
    sums += v * v;
  });
  double sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

void sgd_plain(const SgdStep& step, float* __restrict p, const float* __restrict g, int64_t n) {
  const SgdStep s = step;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = fma(s.weight_decay, p[i], g[i] * s.multiplier);
    p[i] = fma(-s.learning_rate, gradient, p[i]);
  }
}

template <bool kNesterov, bool kSutskever>
void sgd_momentum(const SgdStep& step, float* __restrict p, const float* __restrict g,
                  float* __restrict m, int64_t n) {
  const SgdStep s = step;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = fma(s.weight_decay, p[i], g[i] * s.multiplier);
    const float scaled = kSutskever ? -s.learning_rate * gradient : gradient;
    const float moved = fma(s.momentum, m[i], scaled);
    const float direction = kNesterov ? fma(s.momentum, moved, scaled) : moved;
    m[i] = moved;
    p[i] = kSutskever ? p[i] + direction : fma(-s.learning_rate, direction, p[i]);
  }
}

void sgd(const SgdStep& s, float* p, const float* g, float* m, int64_t n) {
  if (m == nullptr) return sgd_plain(s, p, g, n);
  if (s.sutskever) {
    s.nesterov ? sgd_momentum<true, true>(s, p, g, m, n) : sgd_momentum<false, true>(s, p, g, m, n);
  } else {
    s.nesterov ? sgd_momentum<true, false>(s, p, g, m, n)
               : sgd_momentum<false, false>(s, p, g, m, n);
  }
}

void adam(const AdamStep& step, float* __restrict p, const float* __restrict g, float* __restrict m,
          float* __restrict v, int64_t n) {
  const AdamStep s = step;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = fma(s.weight_decay, p[i], g[i] * s.multiplier);
    const float mi = fma(s.beta1, m[i], s.one_minus_beta1 * gradient);
    const float vi = fma(s.beta2, v[i], s.one_minus_beta2 * gradient * gradient);
    m[i] = mi;
    v[i] = vi;
    const float denominator = fma(root(vi), s.inverse_root, s.epsilon);
    p[i] = fma(-s.rate, mi / denominator, p[i] * s.keep);
  }
}

float lamb_direction(const LambStep& s, float p, float m, float v) {
  const float denominator = fma(root(v), s.inverse_root, s.epsilon);
  return fma(s.weight_decay, p, m * s.inverse_bias1 / denominator);
}

void lamb_moments(const LambStep& step, const float* __restrict p, const float* __restrict g,
                  float* __restrict m, float* __restrict v, int64_t n, double* p_squares,
                  double* u_squares) {
  const LambStep s = step;
  double pp = 0, uu = 0;
#pragma omp simd reduction(+ : pp, uu)
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * s.multiplier;
    const float mi = fma(s.beta1, m[i], s.one_minus_beta1 * gradient);
    const float vi = fma(s.beta2, v[i], s.one_minus_beta2 * gradient * gradient);
    m[i] = mi;
    v[i] = vi;
    const double u = lamb_direction(s, p[i], mi, vi);
    const double pi = p[i];
    pp += pi * pi;
    uu += u * u;
  }
  *p_squares = pp;
  *u_squares = uu;
}

void lamb_apply(const LambStep& step, float rate, float* __restrict p, const float* __restrict m,
                const float* __restrict v, int64_t n) {
  const LambStep s = step;
  for (int64_t i = 0; i < n; ++i) p[i] = fma(-rate, lamb_direction(s, p[i], m[i], v[i]), p[i]);
}

void ema(float decay, float one_minus_decay, float* __restrict average, const float* __restrict p,
         int64_t n) {
  for (int64_t i = 0; i < n; ++i) average[i] = fma(decay, average[i], one_minus_decay * p[i]);
}

}  // namespace

extern const UpdateKernels kUpdate;
const UpdateKernels kUpdate = {sum_squares, sgd, adam, lamb_moments, lamb_apply, ema};

}  // namespace assay::cpu::ASSAY_ISA
