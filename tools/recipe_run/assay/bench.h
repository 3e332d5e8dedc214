// Timed batches of training and of inference through the C interface, and the probe of the device
// that they are timed on.
#pragma once

#include <memory>
#include <vector>

#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/ranks.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

// Steps of training on batches of the loader, or forward passes: on one batch of zeros (their time
// does not depend on the pixels) or on real batches of a loader, with the weights of `checkpoint`
// or, if that is empty, first weights. With `ranks` it is training, by all of them.
std::unique_ptr<BenchSession> make_bench(const assay_context* context, const v1::Recipe& recipe,
                                         const v1::Bench& bench, uint32_t batch,
                                         const fs::path& checkpoint, bool on_gpu,
                                         const RankGroup* ranks);

// The A/A probe on the engine's device: predictions of a small network that computes for most of
// its time, and whose images are small beside that.
class DeviceProbe {
 public:
  // On the context's device; the context must outlive it. Error kCrashed for lack of memory.
  explicit DeviceProbe(const assay_context* context);

  // Of one prediction; see reciperun::fastest.
  double seconds();

 private:
  Model model_;
  std::unique_ptr<Forward> forward_;
  std::vector<Tensor> images_;
};

}  // namespace reciperun::engine
