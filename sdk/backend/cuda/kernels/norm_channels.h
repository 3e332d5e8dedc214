// Numbers per channel of batch normalisation, made from sums.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

// The one place where scale and shift are made; forward and backward must agree to the bit.
struct ScaleAndShift {
  float scale, shift;
};
__device__ inline ScaleAndShift affine_of(const NormInputs& in, float mean, float var,
                                          int64_t channel) {
  const double deviation = sqrt(static_cast<double>(var) + static_cast<double>(in.epsilon));
  const float scale = static_cast<float>(static_cast<double>(in.gamma[channel]) / deviation);
  return {scale, static_cast<float>(static_cast<double>(in.beta[channel]) -
                                    static_cast<double>(mean) * static_cast<double>(scale))};
}

// Returns the scale.
__device__ inline float write_affine(const NormInputs& in, float mean, float var, int64_t channel,
                                     Affine affine) {
  const ScaleAndShift made = affine_of(in, mean, var, channel);
  affine.scale[channel] = made.scale;
  affine.shift[channel] = made.shift;
  return made.scale;
}

// dgamma, dbeta, the affine map and the coefficients of dx = scale*g + b*x + c, from
// dx = scale * (g - sum g / rows - xhat * sum(g * xhat) / rows), xhat = (x - mean) / deviation.
struct FinishGradient {
  NormInputs in;
  NormGradArgs args;
  double rows;
  float *dgamma, *dbeta;
  __device__ void operator()(int64_t channel, const double (&totals)[2]) const {
    const double variance = static_cast<double>(in.var[channel]) + static_cast<double>(in.epsilon);
    dbeta[channel] = static_cast<float>(totals[0]);
    dgamma[channel] = static_cast<float>(totals[1] / sqrt(variance));
    const double scale = static_cast<double>(
        write_affine(in, in.mean[channel], in.var[channel], channel, args.affine));
    const float b = static_cast<float>(-scale * totals[1] / (variance * rows));
    args.b[channel] = b;
    args.c[channel] = static_cast<float>(
        -scale * totals[0] / rows - static_cast<double>(b) * static_cast<double>(in.mean[channel]));
  }
};

}  // namespace assay::cuda::kernels
