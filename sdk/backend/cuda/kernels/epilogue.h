// What follows a product on its way to memory: bias, residual, activation; and activations
// backwards.
#pragma once

#include "sdk/backend/cuda/kernels/language.h"
#include "sdk/base/kernel_constants.h"

namespace assay::cuda::kernels {

using enum ActivationKind;

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float normal_cdf(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
__device__ inline float normal_pdf(float x) { return 0.39894228f * expf(-0.5f * x * x); }

__device__ inline float gelu_inner_tanh(float x) {
  return tanhf(kGeluTanhScale * fmaf(kGeluTanhCubic * (x * x), x, x));
}

__device__ inline float activate(int kind, float x) {
  switch (static_cast<ActivationKind>(kind)) {
    case kRelu:
      return 0.0f > x ? 0.0f : x;  // a NaN passes through
    case kElu:
      return x > 0.0f ? x : expm1f(x);
    case kTanh:
      return tanhf(x);
    case kSigmoid:
      return sigmoid(x);
    case kGelu:
      return x * normal_cdf(x);
    case kSwish:
      return x * sigmoid(x);
    case kGeluTanh:
      return x * (0.5f * (1.0f + gelu_inner_tanh(x)));
    default:
      return x;
  }
}

__device__ inline float differentiate(int kind, float saved, float dy) {
  switch (static_cast<ActivationKind>(kind)) {
    case kRelu:
      return saved <= 0.0f ? 0.0f : dy;
    case kElu:
      return saved > 0.0f ? dy : dy * (saved + 1.0f);
    case kTanh:
      return dy * fmaf(-saved, saved, 1.0f);
    case kSigmoid:
      return dy * saved * (1.0f - saved);
    case kGelu:
      return dy * fmaf(saved, normal_pdf(saved), normal_cdf(saved));
    case kSwish: {
      const float s = sigmoid(saved);
      return dy * s * fmaf(saved, 1.0f - s, 1.0f);
    }
    case kGeluTanh: {
      const float t = gelu_inner_tanh(saved);
      const float slope = kGeluTanhScale * fmaf(saved * saved, 3.0f * kGeluTanhCubic, 1.0f);
      return dy * fmaf(0.5f * saved * fmaf(-t, t, 1.0f), slope, 0.5f * (1.0f + t));
    }
    default:
      return dy;
  }
}

// Adds to v, filters [first, first + n) of a row of the product, what args tells, and stores it.
template <class Y, int N>
__device__ inline void finish(const EpilogueArgs& args, int64_t row, int64_t first, int n,
                              bool whole, float (&v)[N]) {
  float addend[N];
  if (args.bias != nullptr) {
    if (args.bias_is_like_y) {
      load_pack<N>(static_cast<const Y*>(args.bias) + first, n, false, addend);
    } else {
      load_pack<N>(static_cast<const float*>(args.bias) + first, n, false, addend);
    }
    for (int k = 0; k < N; ++k) v[k] += addend[k];
  }
  if (args.residual != nullptr) {
    load_pack<N>(static_cast<const Y*>(args.residual) + row * args.channels + first, n, whole,
                 addend);
    for (int k = 0; k < N; ++k) v[k] += addend[k];
  }
  if (args.pre != nullptr)
    store_pack<N>(static_cast<Y*>(args.pre) + row * args.channels + first, n, whole, v);
  for (int k = 0; k < N; ++k) v[k] = activate(args.kind, v[k]);
  store_pack<N>(static_cast<Y*>(args.y) + row * args.y_pitch + first, n, whole, v);
}

// Whether finish() may write packs of N of type Y at once.
template <int N>
bool whole_rows(const EpilogueArgs& args) {
  return args.channels % N == 0 && args.y_pitch % N == 0 && on_16_bytes(args.y) &&
         (args.residual == nullptr || on_16_bytes(args.residual)) &&
         (args.pre == nullptr || on_16_bytes(args.pre));
}

}  // namespace assay::cuda::kernels
