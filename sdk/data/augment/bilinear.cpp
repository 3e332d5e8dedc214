#include "sdk/data/augment/bilinear.h"

#include <algorithm>
#include <cmath>

namespace assay::data {

void legacy_resize_axis(int source, int target, int first, int count,
                        std::vector<AxisSample>& samples) {
  const float scale = static_cast<float>(source) / static_cast<float>(target);
  samples.clear();
  // f32 throughout, as in TensorFlow's kernel: f64 would give other weights.
  for (int o = first; o < first + count; ++o) {
    const float at = static_cast<float>(o) * scale;
    const int low = std::min(static_cast<int>(at), source - 1);
    samples.push_back({low, std::min(low + 1, source - 1), at - static_cast<float>(low)});
  }
}

void crop_resize_axis(int source, float from, float to, int target,
                      std::vector<AxisSample>& samples) {
  const auto last = static_cast<float>(source - 1);
  const float step = target > 1 ? (to - from) * last / static_cast<float>(target - 1) : 0.0f;
  const float begin = target > 1 ? from * last : 0.5f * (from + to) * last;
  samples.clear();
  for (int o = 0; o < target; ++o) {
    // Rounding may lead past the last pixel, by less than it takes to matter.
    const float at = std::clamp(begin + static_cast<float>(o) * step, 0.0f, last);
    const auto low = static_cast<int>(std::floor(at)), high = static_cast<int>(std::ceil(at));
    samples.push_back({low, high, at - static_cast<float>(low)});
  }
}

}  // namespace assay::data
