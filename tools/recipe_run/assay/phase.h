// One phase of a trial: loaders, one for each device that this process plays, that feed one
// trainer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/ranks.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

// Which part of a trial's data is trained on, by whom.
struct PhasePlace {
  uint64_t fold = 0, seed = 0;
  uint32_t devices = 1;
  bool on_gpu = false;
  const RankGroup* ranks = nullptr;  // null: one process plays all devices in turn
};

// Steps of a phase; of a recipe without phases (phases_of).
Length phase_length(const v1::Recipe& recipe, const PhasePlace& place);

class PhaseTraining {
 public:
  // `recipe` has no phases. The model's present weights are where it begins; context and model
  // outlive it.
  PhaseTraining(const assay_context* context, const v1::Recipe& recipe, assay_model* model,
                const PhasePlace& place, const Length& length);

  assay_trainer* trainer() const { return trainer_.get(); }
  // One update; numbers of steps and samples are the phase's.
  StepResult run_step();
  // The place in the data after the last step: every loader stands there between steps.
  std::string cursor() const { return ahead_ ? cursor_ : cursor_now(); }
  void restore(std::string_view cursor);

 private:
  std::string cursor_now() const;
  double mean_over_ranks(double loss) const;
  void prefetch();

  Feeding feeding_;
  const RankGroup* ranks_;
  Trainer trainer_;
  std::vector<Loader> loaders_;  // by device of this process
  std::optional<Batch> batch_;   // the one that is prefetched
  size_t turn_ = 0;              // batches taken from the loaders
  bool ahead_ = false;           // one batch more than was trained
  std::string cursor_;           // before that batch
};

// What the optimizer remembers of each variable, taken from one trainer of a model and given to the
// next.
class Moments {
 public:
  explicit Moments(const assay_model* model);
  void give_to(const assay_model* model) const;  // Error kUsage if it keeps other ones

 private:
  struct Moment {
    std::string variable;
    int32_t kind;
    std::vector<char> numbers;
  };
  std::vector<Moment> moments_;
};

}  // namespace reciperun::engine
