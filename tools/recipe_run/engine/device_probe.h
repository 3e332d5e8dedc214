// The A/A probe on the engine's device: predictions of a small network that computes for most of
// its time, and whose images are small beside that.
#pragma once

#include "tools/recipe_run/engine/handles.h"

namespace reciperun::engine {

class DeviceProbe {
 public:
  // On the context's device; the context must outlive it. Error kCrashed for lack of memory.
  explicit DeviceProbe(const assay_context* context);

  // Of one prediction; see reciperun::fastest.
  double seconds();

 private:
  void predict();

  Model model_;
  Predictor predictor_;
  Slot slot_;
  Tensor images_;
};

}  // namespace reciperun::engine
