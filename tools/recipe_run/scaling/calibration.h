// The constants of a software stack on a machine, from what was measured there.
#pragma once

#include <span>

#include "tools/recipe_run/scaling/cost_model.h"

namespace reciperun {

// Which constants a stack has; all others are zero. At most one per two observations.
enum class StackKind {
  kOverlapped,   // κ, λ per doubling; the all-reduce is hidden
  kGatedInput,   // c_sync, c_item; gated
  kGated,        // c_sync by precision; gated
  kAccumulated,  // κ, λ per micro-batch; gated, once in many micro-batches
  kInputBound,   // R_host; κ fixed
  kCluster,      // c_sync by precision, network rate, overlap: several nodes
};

struct ScalingObservation {
  DeviceWork work;
  Fabric fabric;
  bool reduced_precision = false;  // fp16 or bf16 where the stack also runs fp32 or tf32
  double rate = 0;                 // published items/s of all devices
};

struct Calibration {
  StackKind kind = StackKind::kOverlapped;
  CostConstants constants;      // sync_ms of full precision
  double reduced_sync_ms = 0;   // c_sync of reduced precision
  double network_gb_per_s = 0;  // fitted, of fabrics with several nodes; 0 = as observed

  CostConstants for_precision(bool reduced) const;
  double predict(const ScalingObservation& observation) const;
};

// Least squares of the relative error of the rate, no constant below zero. Fails with
// std::domain_error on no observations.
Calibration calibrate(StackKind kind, std::span<const ScalingObservation> observations);

}  // namespace reciperun
