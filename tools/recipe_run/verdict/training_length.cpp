#include "tools/recipe_run/verdict/training_length.h"

#include <algorithm>

namespace reciperun {
namespace {

// Of one epoch, 0 if the recipe does not say.
double epoch_samples(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.role() != "train") continue;
    return static_cast<double>(data.nominal_epoch_samples() > 0 ? data.nominal_epoch_samples()
                                                                : data.expect_samples());
  }
  return 0;
}

TrainingPhase phase_of(const v1::Recipe& recipe, const std::string& name,
                       const v1::Training& training, uint32_t devices) {
  TrainingPhase out;
  out.name = name;
  out.batch_per_device = training.batch_per_device();
  const double global_batch = static_cast<double>(training.batch_per_device()) *
                              std::max(1u, training.accumulate()) * devices;
  if (training.has_steps()) {
    out.steps = static_cast<double>(training.steps());
    if (training.steps_divided_by_devices()) out.steps /= devices;
    out.items = out.steps * global_batch;
  } else if (global_batch > 0) {
    out.items = training.epochs() * epoch_samples(recipe);
    out.steps = out.items / global_batch;
  }
  return out;
}

}  // namespace

std::vector<TrainingPhase> training_phases(const v1::Recipe& recipe, uint32_t devices) {
  const v1::Training& training = recipe.training();
  if (training.phase().empty()) return {phase_of(recipe, "", training, devices)};
  std::vector<TrainingPhase> out;
  for (const v1::Phase& phase : training.phase())
    out.push_back(phase_of(recipe, phase.name(), phase.training(), devices));
  return out;
}

const v1::Bench* training_bench(const v1::Recipe& recipe, const TrainingPhase& phase) {
  for (const v1::Bench& bench : recipe.bench()) {
    const auto& batches = bench.batch();
    if (bench.mode() == v1::Bench::TRAIN && bench.phase() == phase.name &&
        std::find(batches.begin(), batches.end(), phase.batch_per_device) != batches.end())
      return &bench;
  }
  return nullptr;
}

}  // namespace reciperun
