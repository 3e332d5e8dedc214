// Configuration of loss scaling (LossScaleConfig in optimizer.proto).
#pragma once

#include "sdk/optim/optimizer.pb.h"

namespace assay::optim {

// Fills in the defaults of the configuration's mode.
LossScaleConfig with_defaults(LossScaleConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault.
void check(const LossScaleConfig& config);

}  // namespace assay::optim
