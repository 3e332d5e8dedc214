// Convolutions of every kind: odd sizes, few and many channels, strides, padding, dilation, groups.
#pragma once

#include <string>
#include <vector>

#include "sdk/graph/ops.h"

namespace assay::test {

inline Dims output_of(const ConvGeometry& g, const Dims& x, const Dims& w) {
  Dims y{x[0], 0, 0, w[0]};
  for (int a = 0; a < 2; ++a)
    y[1 + a] = (x[1 + a] + g.pad_begin[a] + g.pad_end[a] - g.dilation[a] * (w[1 + a] - 1) - 1) /
                   g.stride[a] +
               1;
  return y;
}

struct ConvolutionShape {
  std::string name;
  Dims x, w;
  ConvGeometry g;
};

inline ConvGeometry padded(int64_t pad, int64_t stride = 1, int64_t groups = 1) {
  return {
      .stride = {stride, stride}, .pad_begin = {pad, pad}, .pad_end = {pad, pad}, .groups = groups};
}

inline std::vector<ConvolutionShape> convolution_shapes() {
  return {
      {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"5x5 from one channel", {2, 8, 9, 1}, {32, 5, 5, 1}, padded(2)},
      {"3x3 from three channels", {2, 7, 6, 3}, {16, 3, 3, 3}, padded(1)},
      {"3x3 of whole vectors", {2, 6, 6, 32}, {16, 3, 3, 32}, padded(1)},
      {"3x3 stride 2", {2, 8, 7, 16}, {32, 3, 3, 16}, padded(1, 2)},
      {"1x1", {2, 5, 4, 24}, {17, 1, 1, 24}, {}},
      {"1x1 of whole vectors", {2, 5, 7, 64}, {48, 1, 1, 64}, {}},
      {"1x1 of many pixels", {1, 33, 32, 4}, {8, 1, 1, 4}, {}},
      {"1x1 with padding", {2, 3, 4, 8}, {16, 1, 1, 8}, padded(1)},
      {"1x1 stride 2", {3, 7, 6, 16}, {32, 1, 1, 16}, padded(0, 2)},
      {"odd channels", {1, 5, 7, 5}, {17, 3, 3, 5}, padded(1)},
      {"few output channels", {2, 6, 5, 17}, {3, 3, 3, 17}, padded(1)},
      {"3x1 window", {2, 6, 5, 5}, {4, 3, 1, 5}, {.pad_begin = {1, 0}, .pad_end = {1, 0}}},
      {"asymmetric padding",
       {2, 6, 6, 3},
       {8, 3, 3, 3},
       {.stride = {2, 2}, .pad_begin = {0, 0}, .pad_end = {1, 1}}},
      {"all sides different",
       {1, 6, 7, 4},
       {5, 2, 3, 4},
       {.stride = {1, 2}, .pad_begin = {1, 0}, .pad_end = {0, 2}}},
      {"dilation",
       {2, 9, 9, 8},
       {8, 3, 3, 8},
       {.pad_begin = {2, 2}, .pad_end = {2, 2}, .dilation = {2, 2}}},
      {"uneven dilation", {1, 9, 8, 3}, {4, 3, 2, 3}, {.dilation = {3, 1}}},
      {"many filters", {2, 5, 6, 3}, {256, 3, 3, 3}, padded(1)},
      {"many filters, all sides different",
       {2, 9, 8, 2},
       {257, 3, 2, 2},
       {.stride = {2, 1}, .pad_begin = {2, 0}, .pad_end = {1, 3}, .dilation = {1, 2}}},
      {"two groups", {2, 5, 5, 8}, {6, 3, 3, 4}, padded(1, 1, 2)},
      {"groups of one channel in", {2, 5, 5, 3}, {6, 3, 3, 1}, padded(1, 1, 3)},
      {"depthwise", {2, 6, 7, 16}, {16, 3, 3, 1}, padded(1, 1, 16)},
      {"depthwise stride 2, odd channels", {1, 7, 7, 5}, {5, 5, 5, 1}, padded(2, 2, 5)},
      {"depthwise 5x5 of two vectors", {2, 9, 8, 35}, {35, 5, 5, 1}, padded(2, 1, 35)},
      {"depthwise of many rows", {1, 70, 5, 4}, {4, 3, 3, 1}, padded(1, 1, 4)},
      {"depthwise 3x3 SAME stride 2",
       {2, 8, 10, 16},
       {16, 3, 3, 1},
       {.stride = {2, 2}, .pad_end = {1, 1}, .groups = 16}},
      {"depthwise 5x5 SAME stride 2",
       {1, 6, 8, 17},
       {17, 5, 5, 1},
       {.stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {2, 2}, .groups = 17}},
      {"depthwise 5x5 SAME stride 2 of two packs",
       {1, 8, 8, 16},
       {16, 5, 5, 1},
       {.stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {2, 2}, .groups = 16}},
      {"depthwise 3x3, all sides different",
       {1, 5, 6, 16},
       {16, 3, 3, 1},
       {.pad_begin = {0, 2}, .pad_end = {2, 0}, .groups = 16}},
      {"depthwise of thousands of channels", {1, 45, 4, 4096}, {4096, 3, 3, 1}, padded(1, 1, 4096)},
      {"depthwise of many blocks", {2, 60, 40, 8}, {8, 3, 3, 1}, padded(1, 1, 8)},
      {"depthwise 5x5 stride 2 of one pack",
       {1, 9, 6, 8},
       {8, 5, 5, 1},
       {.stride = {2, 2}, .pad_begin = {1, 2}, .pad_end = {2, 2}, .groups = 8}},
      {"depthwise 3x3 stride 2, padded", {2, 7, 9, 104}, {104, 3, 3, 1}, padded(1, 2, 104)},
      {"depthwise 5x5 of many channels", {1, 5, 9, 144}, {144, 5, 5, 1}, padded(2, 1, 144)},
      {"depthwise 3x3 with gaps", {1, 12, 9, 3}, {3, 3, 3, 1}, padded(0, 4, 3)},
      {"depthwise 5x5 wider than the image", {1, 2, 1, 2}, {2, 5, 5, 1}, padded(4, 1, 2)},
  };
}

}  // namespace assay::test
