// The --set changes that leave a few small steps of a recipe.
#include "tools/recipe_run/run/smoke.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr uint32_t kSteps = 4, kBatch = 4;
constexpr uint32_t kEvaluationBatches = 4, kBenchSteps = 8;

using Sets = std::vector<std::string>;

// What may become of --set: "path=value".
template <class T>
void set(Sets& sets, const std::string& path, const T& value) {
  sets.push_back(fmt::format("{}={}", path, value));
}

void shrink_batch(const v1::Training& training, const std::string& path, Sets& sets) {
  if (training.batch_per_device() > 0)
    set(sets, path + "batch_per_device", std::min(training.batch_per_device(), kBatch));
  if (training.accumulate() > 1) set(sets, path + "accumulate", 1);
}

void shorten_training(const v1::Training& training, const std::string& path, uint32_t steps,
                      uint32_t devices, Sets& sets) {
  const std::string& kind = training.schedule().kind();
  const bool has_length = kind == "cosine" || kind == "linear" || kind == "polynomial";
  const bool laid_out = training.schedule().span() > 0;
  if (training.has_epochs() && has_length && !laid_out)
    set(sets, path + "schedule.span", shortest(training.epochs()));
  set(sets, path + "steps", training.steps_divided_by_devices() ? steps * devices : steps);
  // A warm-up of a number of steps would last longer than the training.
  if (training.schedule().warmup_unit() == "step" && training.schedule().warmup() >= steps)
    set(sets, path + "schedule.warmup", 1);
  shrink_batch(training, path, sets);
}

void shorten_trials(const v1::Recipe& recipe, uint32_t devices, Sets& sets) {
  if (recipe.training().phase().empty())
    shorten_training(recipe.training(), "training.", kSteps, devices, sets);
  for (const v1::Phase& phase : recipe.training().phase())
    shorten_training(phase.training(), "training.phase." + phase.name() + ".training.", kSteps / 2,
                     devices, sets);
  const fs::path weights = fs::path(recipe.io().data_root()) / recipe.model().pretrained();
  if (!recipe.model().pretrained().empty() && !is_there(weights)) {
    set(sets, "model.pretrained", "\"\"");
    if (!recipe.model().pretrained_sha256().empty()) set(sets, "model.pretrained_sha256", "\"\"");
  }
  set(sets, "evaluation.when", "end");
  set(sets, "evaluation.batch", kBatch);
  set(sets, "evaluation.batches", kEvaluationBatches);
  set(sets, "trials.count", 1);
}

void shorten_benches(const v1::Recipe& recipe, Sets& sets) {
  // That the training could begin is looked at before anything is measured.
  if (recipe.training().phase().empty()) shrink_batch(recipe.training(), "training.", sets);
  for (const v1::Phase& phase : recipe.training().phase())
    shrink_batch(phase.training(), "training.phase." + phase.name() + ".training.", sets);
  for (const v1::Bench& bench : recipe.bench()) {
    const std::string path = "bench." + bench.id() + ".";
    const uint32_t smallest = *std::min_element(bench.batch().begin(), bench.batch().end());
    set(sets, path + "devices", "[1]");
    set(sets, path + "batch", fmt::format("[{}]", std::min(smallest, kBatch)));
    set(sets, path + "warmup_steps", 1);
    set(sets, path + "measure_steps", kBenchSteps);
    set(sets, path + "repeats", 1);
  }
}

// The evaluation still falls into the parts of the devices that the recipe is for.
void use_devices(const v1::Recipe& recipe, uint32_t here, Sets& sets) {
  const uint32_t devices = devices_of(recipe);
  const auto& metrics = recipe.evaluation().metric();
  const bool classifies = std::find(metrics.begin(), metrics.end(), "top1") != metrics.end();
  if (devices > 1 && classifies && !recipe.evaluation().arg().contains("shards"))
    set(sets, "evaluation.arg.shards", devices);
  if (recipe.topology().nodes() > 1) set(sets, "topology.nodes", 1);
  if (std::max(1u, recipe.topology().devices_per_node()) == here) return;
  set(sets, "topology.devices_per_node", here);
  if (devices == 1) set(sets, "topology.parallel", "data");
}

}  // namespace

std::vector<std::string> smoke_sets(const v1::Recipe& recipe, const std::string& device,
                                    uint32_t devices) {
  const bool has_length = recipe.training().length_case() != v1::Training::LENGTH_NOT_SET ||
                          !recipe.training().phase().empty();
  const bool trains = recipe.trials().count() > 0;
  require(trains ? has_length : !recipe.bench().empty(),
          "'" + recipe.id() + "' has nothing that --smoke could try",
          "'recipe-run plan " + recipe.id() + "' says what it does");
  Sets sets;
  trains ? shorten_trials(recipe, devices, sets) : shorten_benches(recipe, sets);
  // What a CPU computes in place of a GPU's precisions.
  if (device == "cpu" && needs_gpu(recipe))
    set(sets, "numerics.compute",
        recipe.numerics().compute() == v1::Numerics::TF32 ? "FP32" : "AMP_BF16");
  for (const v1::DataRef& data : recipe.data()) {
    if (data.expect_samples() > 0) set(sets, "data." + data.id() + ".expect_samples", 0);
  }
  use_devices(recipe, trains ? devices : 1, sets);
  return sets;
}

}  // namespace reciperun
