// The charts of a report. Each returns a <figure>, or "" if there is nothing to draw.
#pragma once

#include <string>

#include "tools/recipe_run/report/report.h"

namespace reciperun {

// Training loss of every trial, smoothed, with the range over the trials as a band.
std::string loss_plot(const Measurements& measurements);

// Headline metric at each evaluation, with the published value.
std::string metric_plot(const Report& report);

// One dot per trial against the published value and its margin, and their mean with its interval.
std::string trials_plot(const Report& report);

// Distribution of the step times of one bench configuration, one curve per repeat, with the
// estimators marked.
std::string latency_plot(const BenchResult& bench, const v1::Bench& definition);

}  // namespace reciperun
