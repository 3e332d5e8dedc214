// What the forms of batch normalisation have in common: numbers per channel, made from sums.
#pragma once

#include <algorithm>
#include <cmath>

#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {

struct ChannelAffine {
  float scale, shift;
};
// y = x * scale + shift. The gradient recomputes what the activation read from it, so forward and
// backward must both take it from here.
inline ChannelAffine channel_affine(float gamma, float beta, float mean, float var, float epsilon) {
  const double deviation = std::sqrt(static_cast<double>(var) + epsilon);
  const auto scale = static_cast<float>(gamma / deviation);
  return {scale, static_cast<float>(beta - static_cast<double>(mean) * scale)};
}

// partial [task][2][lanes], total [2][channels], tables [lanes].
struct ForwardScratch {
  double *partial, *total;
  float *scale, *shift;
  size_t bytes;
};
inline ForwardScratch forward_scratch(const Lanes& l, void* base) {
  ScratchLayout scratch(base);
  ForwardScratch s{};
  s.partial = scratch.take<double>(partial_sums_elems(l, 2));
  s.total = scratch.take<double>(static_cast<size_t>(2 * l.channels));
  s.scale = scratch.take<float>(static_cast<size_t>(l.lanes));
  s.shift = scratch.take<float>(static_cast<size_t>(l.lanes));
  s.bytes = scratch.bytes();
  return s;
}

// mean and (biased) var from the sums of x and x^2. Their cancellation costs (mean / deviation)^2
// of f64's 2^53: the variance is good to f32 up to a mean of 10^4 deviations.
inline void finish_statistics(const Lanes& l, const double* total, float* mean, float* var) {
  const double inverse = 1.0 / static_cast<double>(l.rows());
  for (int64_t k = 0; k < l.channels; ++k) {
    const double m = total[k] * inverse;
    const double v = total[l.channels + k] * inverse - m * m;
    mean[k] = static_cast<float>(m);
    var[k] = static_cast<float>(v < 0 ? 0 : v);  // NaN stays
  }
}

// [channels] each.
struct ChannelInputs {
  const float *gamma, *beta, *mean, *var;
};

inline void fill_affine(const Lanes& l, const ChannelInputs& in, float epsilon, float* scale,
                        float* shift) {
  for (int64_t k = 0; k < l.channels; ++k) {
    const ChannelAffine a = channel_affine(in.gamma[k], in.beta[k], in.mean[k], in.var[k], epsilon);
    scale[k] = a.scale;
    shift[k] = a.shift;
  }
  repeat_over_lanes(l, scale);
  repeat_over_lanes(l, shift);
}

// As above; mean, b and c [lanes] of dx = scale * g + b * x + c.
struct BackwardScratch {
  double *partial, *total;
  float *scale, *shift, *mean, *b, *c;
  size_t bytes;
};
inline BackwardScratch backward_scratch(const Lanes& l, void* base) {
  ScratchLayout scratch(base);
  BackwardScratch s{};
  s.partial = scratch.take<double>(partial_sums_elems(l, 2));
  s.total = scratch.take<double>(static_cast<size_t>(2 * l.channels));
  for (float** table : {&s.scale, &s.shift, &s.mean, &s.b, &s.c}) {
    *table = scratch.take<float>(static_cast<size_t>(l.lanes));
  }
  s.bytes = scratch.bytes();
  return s;
}

// The tables that the sums need.
inline void begin_gradient(const Lanes& l, const BackwardScratch& s, const ChannelInputs& in,
                           float epsilon) {
  fill_affine(l, in, epsilon, s.scale, s.shift);
  std::copy_n(in.mean, l.channels, s.mean);
  repeat_over_lanes(l, s.mean);
}

// dgamma, dbeta and the coefficients of dx = scale*g + b*x + c, from
// dx = scale * (g - sum g / rows - xhat * sum(g * xhat) / rows), xhat = (x - mean) / deviation.
// b*x + c cancels where the mean is large; its error stays below |mean| / deviation round-offs of
// the last term, which is itself small beside g.
inline void finish_gradient(const Lanes& l, const BackwardScratch& s, const float* var,
                            float epsilon, float* dgamma, float* dbeta) {
  const double rows = static_cast<double>(l.rows());
  for (int64_t k = 0; k < l.channels; ++k) {
    const double variance = static_cast<double>(var[k]) + epsilon;
    const double sum_g = s.total[k], sum_gx = s.total[l.channels + k];
    dbeta[k] = static_cast<float>(sum_g);
    dgamma[k] = static_cast<float>(sum_gx / std::sqrt(variance));
    const double scale = s.scale[k];
    s.b[k] = static_cast<float>(-scale * sum_gx / (variance * rows));
    s.c[k] = static_cast<float>(-scale * sum_g / rows - static_cast<double>(s.b[k]) * s.mean[k]);
  }
  repeat_over_lanes(l, s.b);
  repeat_over_lanes(l, s.c);
}

}  // namespace assay::cpu
