// Learning-rate schedules: a factor computed on the host from the step number (formulas in
// optimizer.proto).
#pragma once

#include <cstdint>

#include "sdk/optim/optimizer.pb.h"

namespace assay::optim {

// Fills in the defaults of the configuration's kind; an empty one is "constant".
ScheduleConfig with_defaults(ScheduleConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault. Afterwards
// schedule_factor cannot fail.
void check(const ScheduleConfig& config);

// The factor of the learning rate at step s, counted from 0. `config` has its defaults.
double schedule_factor(const ScheduleConfig& config, int64_t step);

}  // namespace assay::optim
