// One fused pass over parameters, gradients and moments per optimizer. Arrays are f32 [n], element
// i of each belonging to element i of the others; their ranges do not overlap.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// In f64, so that squares of any f32 stay finite and the sum is not finite only if an element is
// not. Lanes behind the last element must be zero.
struct SumOfSquares {
  Doubles low{}, high{};

  void add(Vec x) {
    const Doubles a = lower_doubles(x), b = upper_doubles(x);
    low += a * a;
    high += b * b;
  }
  double total() const {
    double sum = 0;
    for (int64_t lane = 0; lane < kLanes / 2; ++lane) sum += low[lane];
    for (int64_t lane = 0; lane < kLanes / 2; ++lane) sum += high[lane];
    return sum;
  }
};

[[gnu::flatten]] double sum_squares(const float* x, int64_t n) {
  SumOfSquares sum;
  for_vectors(n, [&](int64_t i, int64_t count) { sum.add(stream_lanes(x + i, count)); });
  return sum.total();
}

[[gnu::flatten]] void sgd_plain(const SgdStep& s, float* p, const float* g, int64_t n) {
  for_vectors(n, [=](int64_t i, int64_t count) {
    const Vec value = stream_lanes(p + i, count);
    const Vec gradient = fma(value, s.weight_decay, stream_lanes(g + i, count) * s.multiplier);
    store_lanes(p + i, fma(gradient, -s.learning_rate, value), count);
  });
}

template <bool kNesterov, bool kSutskever>
[[gnu::flatten]] void sgd_momentum(const SgdStep& s, float* p, const float* g, float* m,
                                   int64_t n) {
  for_vectors(n, [=](int64_t i, int64_t count) {
    const Vec value = stream_lanes(p + i, count);
    const Vec gradient = fma(value, s.weight_decay, stream_lanes(g + i, count) * s.multiplier);
    const Vec scaled = kSutskever ? -s.learning_rate * gradient : gradient;
    const Vec moved = fma(stream_lanes(m + i, count), s.momentum, scaled);
    const Vec direction = kNesterov ? fma(moved, s.momentum, scaled) : moved;
    store_lanes(m + i, moved, count);
    store_lanes(p + i, kSutskever ? value + direction : fma(direction, -s.learning_rate, value),
                count);
  });
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

// Moments with the gradient in them, which are stored and returned.
struct Moments {
  Vec first, second;
};
template <class Step>
Moments moments(const Step& s, Vec gradient, float* m, float* v, int64_t count) {
  const Moments moved = {
      fma(stream_lanes(m, count), s.beta1, s.one_minus_beta1 * gradient),
      fma(stream_lanes(v, count), s.beta2, s.one_minus_beta2 * gradient * gradient)};
  store_lanes(m, moved.first, count);
  store_lanes(v, moved.second, count);
  return moved;
}

[[gnu::flatten]] void adam(const AdamStep& s, float* p, const float* g, float* m, float* v,
                           int64_t n) {
  for_vectors(n, [=](int64_t i, int64_t count) {
    const Vec value = stream_lanes(p + i, count);
    const Vec gradient = fma(value, s.weight_decay, stream_lanes(g + i, count) * s.multiplier);
    const Moments moved = moments(s, gradient, m + i, v + i, count);
    const Vec denominator = fma(root(moved.second), s.inverse_root, Vec{} + s.epsilon);
    store_lanes(p + i, fma(moved.first / denominator, -s.rate, value * s.keep), count);
  });
}

Vec lamb_direction(const LambStep& s, Vec value, const Moments& of) {
  const Vec denominator = fma(root(of.second), s.inverse_root, Vec{} + s.epsilon);
  return fma(value, s.weight_decay, of.first * s.inverse_bias1 / denominator);
}

[[gnu::flatten]] void lamb_moments(const LambStep& s, const float* p, const float* g, float* m,
                                   float* v, int64_t n, double* p_squares, double* u_squares) {
  SumOfSquares values, directions;
  for_vectors(n, [&, s](int64_t i, int64_t count) {
    const Vec value = stream_lanes(p + i, count);
    const Moments moved =
        moments(s, stream_lanes(g + i, count) * s.multiplier, m + i, v + i, count);
    values.add(value);
    directions.add(first_lanes(lamb_direction(s, value, moved), count));
  });
  *p_squares = values.total();
  *u_squares = directions.total();
}

[[gnu::flatten]] void lamb_apply(const LambStep& s, float rate, float* p, const float* m,
                                 const float* v, int64_t n) {
  for_vectors(n, [=](int64_t i, int64_t count) {
    const Vec value = stream_lanes(p + i, count);
    const Moments of = {stream_lanes(m + i, count), stream_lanes(v + i, count)};
    store_lanes(p + i, fma(lamb_direction(s, value, of), -rate, value), count);
  });
}

[[gnu::flatten]] void ema(float decay, float one_minus_decay, float* average, const float* p,
                          int64_t n) {
  for_vectors(n, [=](int64_t i, int64_t count) {
    const Vec moved =
        fma(stream_lanes(average + i, count), decay, one_minus_decay * stream_lanes(p + i, count));
    store_lanes(average + i, moved, count);
  });
}

}  // namespace

extern const UpdateKernels kUpdate;
const UpdateKernels kUpdate = {sum_squares, sgd, adam, lamb_moments, lamb_apply, ema};

}  // namespace assay::cpu::ASSAY_ISA
