// Configuration of loss scaling (LossScaleConfig in optimizer.proto).
#pragma once

#include <limits>

#include "sdk/base/expect.h"
#include "sdk/optim/optimizer.pb.h"

namespace assay::optim {

// The scales whose inverse devices can compute with, in f32.
inline constexpr Interval kLossScales{std::numeric_limits<float>::min(), kMaxF32, true};

// Fills in the defaults of the configuration's mode.
LossScaleConfig with_defaults(LossScaleConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault.
void check(const LossScaleConfig& config);

}  // namespace assay::optim
