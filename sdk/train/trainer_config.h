// The configuration of a trainer: defaults, checks, and whether two of them train alike.
#pragma once

#include <optional>
#include <string>

#include "sdk/nn/training_options.h"
#include "sdk/train/trainer.pb.h"

namespace assay::train {

// Every default filled in: what reports and checkpoints show.
TrainerConfig with_defaults(TrainerConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault. Names of parameters
// and passes are checked where the graph is built.
void check(const TrainerConfig& config);

// What of it is the model's to heed.
nn::TrainingOptions training_options(const TrainerConfig& config);

// The first key in which two configurations differ, and its two values as JSON text.
struct ConfigDifference {
  std::string key;  // its path: "optimizer.momentum"
  std::string ours, theirs;
};

// Looks at everything that changes how training goes on: all keys but eval_batch_size. Both have
// their defaults.
std::optional<ConfigDifference> first_difference(const TrainerConfig& ours,
                                                 const TrainerConfig& theirs);

// The same for two JSON objects, key by key.
std::optional<ConfigDifference> first_difference(const std::string& ours,
                                                 const std::string& theirs);

}  // namespace assay::train
