// Timed batches of training and of inference through the C interface.
#pragma once

#include <memory>

#include "tools/recipe_run/engine/handles.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun::engine {

// Steps of training on batches of the loader.
std::unique_ptr<BenchSession> make_training_bench(const assay_context* context,
                                                  const v1::Recipe& recipe, const BenchPoint& point,
                                                  bool on_gpu);

// Forward passes, on one batch of zeros (their time does not depend on the pixels) or on real
// batches of a loader, with the weights of `checkpoint` or, if that is empty, first weights.
std::unique_ptr<BenchSession> make_inference_bench(const assay_context* context,
                                                   const v1::Recipe& recipe,
                                                   const BenchPoint& point,
                                                   const fs::path& checkpoint);

}  // namespace reciperun::engine
