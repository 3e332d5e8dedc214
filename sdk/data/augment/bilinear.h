// Bilinear sampling as TensorFlow 1 does it, for results that are compared with its: corners of
// pixels, not centres, and f32 arithmetic in its order. Images are [rows, columns] of one channel.
#pragma once

#include <cstdint>
#include <vector>

namespace assay::data {

// Where each output index of one axis reads: between `low` and `high`, `weight` of the latter.
struct AxisSample {
  int32_t low, high;
  float weight;
};

// tf.image.resize_bilinear without align_corners: output o of `target` reads at o * source /
// target. Replaces `samples` by `count` outputs from `first` on.
void legacy_resize_axis(int source, int target, int first, int count,
                        std::vector<AxisSample>& samples);

// tf.image.crop_and_resize along one axis: output o of `target` reads at
// from * (source - 1) + o * (to - from) * (source - 1) / (target - 1), 0 <= from < to <= 1.
// Replaces `samples`.
void crop_resize_axis(int source, float from, float to, int target,
                      std::vector<AxisSample>& samples);

// The pixel between four: rows first sampled along columns, then between the rows. `value` maps a
// stored pixel to a number.
template <class T, class Value>
float sample_bilinear(const T* image, int columns, const AxisSample& y, const AxisSample& x,
                      const Value& value) {
  const T* upper = image + y.low * columns;
  const T* lower = image + y.high * columns;
  const float upper_left = value(upper[x.low]), upper_right = value(upper[x.high]);
  const float lower_left = value(lower[x.low]), lower_right = value(lower[x.high]);
  const float top = upper_left + (upper_right - upper_left) * x.weight;
  const float bottom = lower_left + (lower_right - lower_left) * x.weight;
  return top + (bottom - top) * y.weight;
}

}  // namespace assay::data
