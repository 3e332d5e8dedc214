// Learning-rate schedules: a factor computed on the host from the step number (formulas in
// optimizer.proto).
#pragma once

#include <cstdint>

#include "sdk/optim/optimizer.pb.h"

namespace assay::optim {

// Fails with kInvalid naming the key at fault; afterwards schedule_factor cannot fail.
void check_schedule(const ScheduleConfig& config);

// The factor of the learning rate at step s, counted from 0.
double schedule_factor(const ScheduleConfig& config, int64_t step);

}  // namespace assay::optim
