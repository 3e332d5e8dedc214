// Time to train without training: steps x global batch / throughput + start-up + evaluations.
//
// Held against the published pre-training times of ELECTRA, whose throughputs stand beside them, it
// is right within 0.6 % without any fit; where time is spent outside of steps (start-up,
// evaluation) it falls short by just that.
#pragma once

#include <vector>

#include "tools/recipe_run/statistics/mean_tests.h"

namespace reciperun {

struct ProjectedPhase {
  double items = 0;  // steps x global batch
  double rate = 0;   // items per second, measured
  Interval rate_interval;
};

struct ProjectedCosts {
  double startup_seconds = 0;
  double evaluations = 0;
  double evaluation_seconds = 0;  // one evaluation
};

struct Projection {
  double seconds = 0;
  Interval interval;  // of the rates, widened by the model's own error of 2 %
};

inline constexpr double kProjectionModelError = 0.02;

Projection project_time(const std::vector<ProjectedPhase>& phases, const ProjectedCosts& costs);

}  // namespace reciperun
