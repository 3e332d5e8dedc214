// What the `facts` of ops are made of.
#pragma once

#include "sdk/graph/node_view.h"

namespace assay {

inline double count_of(const ValueType& type) { return static_cast<double>(type.numel()); }
inline double bytes_of(const ValueType& type) { return static_cast<double>(type.bytes()); }

// What of input i lies in memory: not its border.
inline double bytes_read(const NodeView& c, int i) {
  const auto& border = c.x_layout(i).border;
  return border ? bytes_of({c.x(i).dtype, border->dims}) : bytes_of(c.x(i));
}

// Every input and output once.
inline double traffic_of(const NodeView& c) {
  double bytes = 0;
  for (int i = 0; i < c.n_inputs(); ++i) bytes += bytes_read(c, i);
  for (int i = 0; i < c.n_outputs(); ++i) bytes += bytes_of(c.y(i));
  return bytes;
}

// An exponential with what stands around it, in rough numbers: for the profile's GFLOP/s only.
inline constexpr double kFlopsPerExponential = 25;

// Of the direct sum of a convolution of y [N,P,Q,K] with w [K,R,S,C/groups], whatever algorithm
// takes its place; the gradients have as many.
inline double conv2d_flops(const Dims& y, const Dims& w) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w[1] * w[2] * w[3]);
}

}  // namespace assay
