// How well the cost model says what the tables say: with constants fitted to the same values, and,
// what counts, with constants that have not seen them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/scaling/series.h"

namespace reciperun {

struct ScalingPrediction {
  const ScalingValue* value = nullptr;
  double fitted = 0;               // constants of the same group on the same machine
  std::optional<double> held_out;  // constants that never saw the value
  // Of the held-out values on several nodes: T16 + 0.3 (T16 - T8).
  std::optional<double> rule_of_thumb;

  double error(double predicted) const { return predicted / value->observation.rate - 1; }
};

struct ScalingErrors {
  int count = 0;
  double mean = 0;  // of the absolute relative errors
  double worst = 0;
  double bias = 0;  // mean of the signed ones
};

// Values of one node: the held-out prediction of every machine but `kCalibrationMachine` uses the
// constants of that machine alone. Values of several nodes: that of the largest device count uses
// the constants of the smaller ones.
inline constexpr char kCalibrationMachine[] = "dgx-1";

struct ScalingStudy {
  std::vector<ScalingPrediction> single_node;
  std::vector<ScalingPrediction> cluster;  // only the largest device count of each series

  static ScalingErrors errors_fitted(const std::vector<ScalingPrediction>& predictions);
  static ScalingErrors errors_held_out(const std::vector<ScalingPrediction>& predictions);
  static ScalingErrors errors_rule_of_thumb(const std::vector<ScalingPrediction>& predictions);
};

// `published` must outlive the study.
ScalingStudy study_scaling(const PublishedScaling& published);

// The study as text: one line per value, then the errors.
// `columns` of the terminal; 0: lines of any length.
std::string study_text(const ScalingStudy& study, int columns = 0);

}  // namespace reciperun
