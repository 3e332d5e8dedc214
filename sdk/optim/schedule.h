// Learning-rate schedules: a factor computed on the host from the step number (formulas in
// optimizer_config.h).
#pragma once

#include <cstdint>

#include "sdk/optim/optimizer_config.h"

namespace assay::optim {

// The factor of the learning rate at step s, counted from 0. `config` has its defaults and passed
// the checks: this cannot fail.
double schedule_factor(const ScheduleConfig& config, int64_t step);

}  // namespace assay::optim
