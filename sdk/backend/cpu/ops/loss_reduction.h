// What the sum of a loss over rows is multiplied by.
#pragma once

#include <algorithm>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

struct LossReduction {
  Reduction reduction;
  float epsilon;
  int64_t rows;

  bool counts() const { return reduction == Reduction::kCountedMean; }
  // Rows whose label is none of padding.
  float count(const int32_t* labels) const {
    return static_cast<float>(
        std::count_if(labels, labels + rows, [](int32_t label) { return label >= 0; }));
  }
  // `count` [] is read if counts().
  double factor(const float* count) const {
    if (counts()) return 1.0 / (static_cast<double>(*count) + static_cast<double>(epsilon));
    return reduction == Reduction::kMean ? 1.0 / static_cast<double>(rows) : 1.0;
  }
};

}  // namespace assay::cpu
