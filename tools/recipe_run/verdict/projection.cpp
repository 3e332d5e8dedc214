#include "tools/recipe_run/verdict/projection.h"

#include <stdexcept>

namespace reciperun {

Projection project_time(const std::vector<ProjectedPhase>& phases, const ProjectedCosts& costs) {
  const double fixed_seconds = costs.startup_seconds + costs.evaluations * costs.evaluation_seconds;
  Projection out{fixed_seconds, {fixed_seconds, fixed_seconds}};
  for (const ProjectedPhase& phase : phases) {
    if (!(phase.rate > 0) || !(phase.rate_interval.lower > 0) || phase.items < 0)
      throw std::domain_error("a projection needs rates above zero");
    out.seconds += phase.items / phase.rate;
    out.interval.lower += phase.items / phase.rate_interval.upper;
    out.interval.upper += phase.items / phase.rate_interval.lower;
  }
  out.interval.lower *= 1 - kProjectionModelError;
  out.interval.upper *= 1 + kProjectionModelError;
  return out;
}

}  // namespace reciperun
