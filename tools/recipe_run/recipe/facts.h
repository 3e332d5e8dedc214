// Plain facts that a recipe states or implies, each worked out in one place: its devices, the work
// of its training, the meaning of a trial's number, what kind of row an expectation is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/stats/quantiles.h"

namespace reciperun {

enum class RowKind {
  kTrials,  // accuracy, loss: one value per trial; their mean, extremes and spread too
  kBench,   // throughput and latency of one configuration
  kRatio,   // a ratio of two rows that are timed: weak scaling, the speed-up of a precision
  kTime,    // time to train
};
RowKind kind_of(const v1::Expect& expect);

// Rows that are timed can be judged only on the same hardware class, on a quiet machine and without
// an interruption.
bool is_timing(const v1::Expect& expect);

// False for a row that is only measured.
bool has_published_value(const v1::Expect& expect);

// Factor from base units (fractions, seconds, items/s) to `unit`. Error kUsage for an unknown unit.
double unit_factor(const std::string& unit);

// Metric "accuracy:sd" is the statistic "sd" over trials of the metric "accuracy"; "" means their
// mean.
struct MetricName {
  std::string base;
  std::string statistic;  // "", "sd", "min", "max"
};
MetricName split_metric(const std::string& metric);

// The element with this id, or nullptr.
const v1::Bench* find_bench(const v1::Recipe& recipe, const std::string& id);
const v1::Expect* find_expectation(const v1::Recipe& recipe, const std::string& id);

// The quantile of a latency row and how it is estimated.
Quantile quantile_of(const v1::Expect& expect);

// Numbers of trials at which the results are looked at (stats/looks.h); all folds of a seed count
// together.
std::vector<uint32_t> trial_looks(const v1::Recipe& recipe);

// Devices that the recipe trains on, and those that a row was published for: its scope's, one for a
// bench, or all of the recipe's topology. At least 1.
uint32_t devices_of(const v1::Recipe& recipe);
uint32_t devices_of(const v1::Recipe& recipe, const v1::Expect& expect);
// Whether its precision is one that only GPUs compute in.
bool needs_gpu(const v1::Recipe& recipe);
// "1 device", "8 devices".
std::string device_count(uint32_t devices);

// Trials of the unit "fold" are trainings on fixed parts of the data: the trial numbers 0 to k - 1
// are the k folds with seed 0, k to 2k - 1 those with seed 1, and so on. Other trials are seeds.
struct TrialPart {
  uint64_t fold = 0, seed = 0;
};
// Error kUsage where folds are asked for and no data have any.
TrialPart trial_part(const v1::Recipe& recipe, uint64_t trial);
// Trials that one seed takes: the folds where the unit is "fold", else 1.
uint32_t trials_per_seed(const v1::Recipe& recipe);
// For people: "seed 7", "fold 1 of 5, seed 0".
std::string trial_title(const v1::Recipe& recipe, uint64_t trial);

// One phase of the training; a training without phases is one phase without a name.
struct TrainingPhase {
  std::string name;
  uint32_t batch_per_device = 0;
  double steps = 0;  // updates; 0 if the recipe does not say how long an epoch is
  double items = 0;  // samples seen, steps x global batch
};
std::vector<TrainingPhase> training_phases(const v1::Recipe& recipe, uint32_t devices);

// Of data of text: pieces of a sequence, padding included; 0 of other data.
uint32_t sequence_length(const v1::DataRef& data);

// What a phase trains on: the data it names, else those of role train or bench; nullptr if there
// are none.
const v1::DataRef* phase_data(const v1::Recipe& recipe, const v1::Phase& phase);

// The bench that trains with a phase's work at its batch, or nullptr.
const v1::Bench* training_bench(const v1::Recipe& recipe, const TrainingPhase& phase);

// "" if the recipe as it stands may be held against its published values, else why not: data that
// stand in for others, deviations after which something else is computed.
std::string incomparable_as_it_stands(const v1::Recipe& recipe);

// "" if timings on `device` may be held against the published ones, else why not.
std::string other_hardware(const v1::Recipe& recipe, const std::string& device);

}  // namespace reciperun
