// Trains one trial from wherever it stands to its result, leaving events, steps, checkpoints and
// metrics in its folder.
#pragma once

#include <atomic>

#include "tools/common/progress.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun {

struct TrialJob {
  const v1::Recipe& recipe;
  std::string exec_digest;
  uint64_t seed = 0;
  fs::path folder;
  std::string title;               // for the progress bar
  std::atomic<bool>& stop;         // set by a signal: checkpoint, then Error kInterrupted
  double checkpoint_seconds = 30;  // longest time between two checkpoints
  bool tensorboard = false;        // leave event files, too
};

// Nothing to do if the trial has its metrics.json already. A failure of the training itself (NaN,
// ...) is recorded there; interruption and failures to record are raised.
void run_trial(const TrialJob& job, TrainerDriver& driver, Progress& progress);

// The steps after which Evaluation.when ("end", "every:2epoch", "every:500step") asks for an
// evaluation, none before the end of Evaluation.first_epoch; the last step always. Fails
// (Exit::kUsage) on other text.
class EvaluationTimes {
 public:
  EvaluationTimes(const std::string& when, double steps_per_epoch, int64_t total_steps,
                  double first_epoch = 0);
  bool due(int64_t step) const;

 private:
  double every_ = 0;  // steps; 0 = only at the end
  double first_ = 0;  // step of the first one
  int64_t total_;
};

}  // namespace reciperun
