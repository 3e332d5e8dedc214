// A recipe in the words of the engine: the JSON texts that the C ABI takes.
//
// Nothing is dropped: what a recipe asks and this engine does not offer is an Error (kUsage) that
// names the field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun::engine {

// Where a training stands in the recipe's own units.
struct Length {
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
};

// The phases of the recipe's training as recipes without phases: of the data to train on each has
// its own. A recipe without phases is its only one.
std::vector<v1::Recipe> phases_of(const v1::Recipe& recipe);

// Of one update.
int64_t samples_per_step(const v1::Recipe& recipe, uint32_t devices);

// Steps of a training over `samples` training samples, unless the recipe says how many an epoch
// has, on `devices` devices.
Length training_length(const v1::Recipe& recipe, int64_t samples, uint32_t devices = 1);

// What the engine calls a precision: "fp32", "tf32", "amp-fp16", "amp-bf16".
std::string precision_name(v1::Numerics::Compute compute);

std::string model_config(const v1::Model& model);

// What no configuration carries and this engine does not offer: scorers it does not know, another
// number format for what `devices` send each other.
void require_offered(const v1::Recipe& recipe, uint32_t devices);
// The same of a measurement.
void require_offered(const v1::Bench& bench);

// Whether a trial's score is the mean of the last steps' losses, and nothing is evaluated.
bool scores_training_loss(const v1::Recipe& recipe);

// `layers` of the model's encoder, where the optimizer tells them apart. batch 0: the recipe's own;
// another one is for benches. `devices` are emulated: their batches
// accumulate into one update. `raw_images`: of a loader that gives bytes, "" of one that does not.
std::string trainer_config(const v1::Recipe& recipe, const Length& length, int64_t layers,
                           uint64_t seed, int64_t batch, uint32_t devices = 1,
                           const std::string& raw_images = "");
struct Prediction {
  bool averages = false;    // of the weights, which a model that was trained with them has
  std::string suppression;  // of a detector: "hard"; "": the model's own
};
std::string predictor_config(const v1::Recipe& recipe, int64_t batch,
                             const Prediction& prediction = {});
// What a measurement predicts.
Prediction prediction_of(const v1::Bench& bench);

struct LoaderConfig {
  std::string loader, transform;
};
// Which part of the data a loader gives.
struct Share {
  std::vector<int64_t> records;  // of the split, in order; empty = all
  uint32_t rank = 0, world_size = 1;
};
LoaderConfig training_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                    uint64_t seed, int64_t batch, const Share& share = {});
int64_t evaluation_batch(const v1::Recipe& recipe);
// Parts that the evaluation data fall into: evaluation.arg "shards", else the recipe's devices,
// each of which evaluates its own. At least 1.
uint32_t evaluation_shards(const v1::Recipe& recipe);
LoaderConfig evaluation_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                      const Share& share = {});
// Batches of the data in order, over and over, for timing predictions: the last of a pass filled
// up, or left `partial`.
LoaderConfig bench_loader_config(const v1::Recipe& recipe, const v1::DataRef& data, int64_t batch,
                                 bool partial);

// The data of that role or id; Error kUsage if the recipe has none. A recipe that only measures may
// train on data of role bench.
const v1::DataRef& training_data(const v1::Recipe& recipe);
bool has_evaluation_data(const v1::Recipe& recipe);
const v1::DataRef& evaluation_data(const v1::Recipe& recipe);
// What predictions are timed on: of role bench, else what is evaluated on.
const v1::DataRef& bench_data(const v1::Recipe& recipe);

}  // namespace reciperun::engine
