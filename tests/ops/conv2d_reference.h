// Convolutions and their gradients by their definitions, in f64.
#pragma once

#include <algorithm>
#include <variant>
#include <vector>

#include "tests/harness/activation_reference.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"
#include "tests/ops/convolution_shapes.h"

namespace assay::test {

inline size_t flat(const Dims& d, int64_t a, int64_t b, int64_t c, int64_t e) {
  return static_cast<size_t>(((a * d[1] + b) * d[2] + c) * d[3] + e);
}

// Calls body(x, w, y) with the flat indices of every product of the convolution.
template <class Body>
void each_product(const ConvGeometry& g, const Dims& x, const Dims& w, const Dims& y,
                  const Body& body) {
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t p = 0; p < y[1]; ++p)
      for (int64_t q = 0; q < y[2]; ++q)
        for (int64_t k = 0; k < y[3]; ++k)
          for (int64_t r = 0; r < w[1]; ++r)
            for (int64_t s = 0; s < w[2]; ++s) {
              const int64_t h = p * g.stride[0] - g.pad_begin[0] + r * g.dilation[0];
              const int64_t v = q * g.stride[1] - g.pad_begin[1] + s * g.dilation[1];
              if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
              const int64_t first = k / (y[3] / g.groups) * w[3];  // first channel of the group
              for (int64_t c = 0; c < w[3]; ++c)
                body(flat(x, n, h, v, first + c), flat(w, k, r, s, c), flat(y, n, p, q, k));
            }
}

inline Tensor zeros(const Dims& dims) {
  return {dims, std::vector<double>(static_cast<size_t>(dims.numel()))};
}

inline std::vector<Tensor> conv_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2d>(op);
  Tensor y = zeros(output_of(p.geometry, x[0].dims, x[1].dims));
  each_product(p.geometry, x[0].dims, x[1].dims, y.dims, [&](size_t i, size_t j, size_t o) {
    y.values[o] += x[0].values[i] * x[1].values[j];
  });
  for (size_t o = 0; o < y.values.size(); ++o) {
    if (p.has_bias) y.values[o] += x[2].values[o % x[2].values.size()];
    if (p.has_residual) y.values[o] += x[static_cast<size_t>(p.residual_input())].values[o];
  }
  const Tensor pre = y;
  for (double& v : y.values) v = activation_reference(p.activation, v);
  if (p.keep_pre) return {y, pre};
  if (!p.keep_sums) return {y};
  const size_t channels = static_cast<size_t>(y.dims[3]);
  Tensor sums = zeros({2, y.dims[3]});
  for (size_t o = 0; o < y.values.size(); ++o) {
    sums.values[o % channels] += y.values[o];
    sums.values[channels + o % channels] += y.values[o] * y.values[o];
  }
  return {y, sums};
}

inline std::vector<Tensor> grad_data_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dGradData>(op);
  Tensor dx = zeros(p.x_dims);
  each_product(p.geometry, p.x_dims, x[1].dims, x[0].dims, [&](size_t i, size_t j, size_t o) {
    dx.values[i] += x[0].values[o] * x[1].values[j];
  });
  if (p.activation != ActivationKind::kNone) {
    for (size_t i = 0; i < dx.values.size(); ++i)
      dx.values[i] *= derivative_reference(p.activation, x[2].values[i]);
  }
  if (!p.keep_sums) return {dx};
  Tensor sums = zeros({dx.dims[3]});
  for (size_t i = 0; i < dx.values.size(); ++i) sums.values[i % sums.values.size()] += dx.values[i];
  return {dx, sums};
}

inline std::vector<Tensor> grad_weight_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dGradWeight>(op);
  Tensor dw = zeros(p.w_dims), dbias = zeros({p.w_dims[0]});
  each_product(p.geometry, x[0].dims, p.w_dims, x[1].dims, [&](size_t i, size_t j, size_t o) {
    dw.values[j] += x[0].values[i] * x[1].values[o];
  });
  for (size_t o = 0; o < x[1].values.size(); ++o)
    dbias.values[o % dbias.values.size()] += x[1].values[o];
  if (!p.has_bias) return {dw};
  return {dw, dbias};
}

// On a backend whose convolutions are of one type what it does not take along finds a rounded
// product.
inline Accuracy of_rounded_product(Accuracy accuracy) {
  if (!convolutions_are_of_one_type()) return accuracy;
  ++accuracy.roundings;
  accuracy.magnitude = std::max(accuracy.magnitude, 1.0);  // of the product
  return accuracy;
}

// In f32, of numbers that are the same in all types: such backends round them.
inline Argument bias_of(int64_t filters) {
  std::vector<double> values;
  for (int64_t i = 0; i < filters; ++i)
    values.push_back((static_cast<double>(i * 37 % 128) - 64) / 64);
  return {{filters}, DType::kF32, Recipe::listed(values)};
}

}  // namespace assay::test
