// Training of one seed over the C interface.
#pragma once

#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/handles.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// A data set's folder, below io.data_root.
fs::path data_folder(const v1::Recipe& recipe, const v1::DataRef& data);

// Records of a split, from its manifest. Fails (kDataMismatch) if the data set is missing, has no
// such split, or does not hold the number the recipe expects.
int64_t split_records(const v1::Recipe& recipe, const v1::DataRef& data);

// `batch`: 0 = the recipe's.
class AssayTrial : public TrainingTrial {
 public:
  AssayTrial(assay_context* context, const v1::Recipe& recipe, uint64_t seed, uint32_t batch = 0);

  void load(const fs::path& checkpoint);

  int64_t step() const override { return step_; }
  int64_t total_steps() const override { return total_steps_; }
  double steps_per_epoch() const override { return steps_per_epoch_; }
  uint64_t parameters() const override { return parameters_; }
  StepResult run_step() override;
  std::map<std::string, double> evaluate(const Tick& tick) override;
  void save(const fs::path& file) override;

 private:
  void build_trainer(uint64_t seed, int64_t batch);
  void open_evaluation();

  assay_context* context_;
  v1::Recipe recipe_;
  // The trainer goes before its model, both before the loaders.
  Loader train_data_;
  Loader eval_data_;
  Model model_;
  Trainer trainer_;
  int64_t step_ = 0;
  int64_t total_steps_ = 0;
  double steps_per_epoch_ = 1;
  uint64_t parameters_ = 0;
  int64_t eval_batches_ = 0;
  int64_t eval_batch_ = 0;
};

}  // namespace reciperun
