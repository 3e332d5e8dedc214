// What an expectation says about its row: kind, unit, margin, estimator, place in the report.
#pragma once

#include <string>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/verdict/published.h"
#include "tools/recipe_run/verdict/rules.h"

namespace reciperun {

enum class RowKind {
  kTrials,   // accuracy, loss: one value per trial; their mean, extremes and spread too
  kBench,    // throughput and latency of one configuration
  kScaling,  // a ratio of two throughputs: weak scaling, speed-up of a precision
  kTime,     // time to train
};
RowKind kind_of(const v1::Expect& expect);

// Only on the same hardware class, a quiet machine and without interruption can these be judged.
bool is_timing(const v1::Expect& expect);

// Factor from base units (fractions, seconds, items/s) to `unit`; fails on an unknown unit.
double unit_factor(const std::string& unit);

// Metric "accuracy:sd" is the statistic "sd" over trials of the metric "accuracy"; "" means their
// mean.
struct MetricName {
  std::string base;
  std::string statistic;  // "", "sd", "min", "max"
};
MetricName split_metric(const std::string& metric);

const v1::Bench* find_bench(const v1::Recipe& recipe, const std::string& id);
v1::Quantile quantile_of(const v1::Expect& expect);

// Devices the row was published for: its scope's, or all of the recipe's topology; at least 1.
uint32_t devices_of(const v1::Recipe& recipe, const v1::Expect& expect);

// Margin where the expectation gives none: 0.30 points, 0.005 Dice, 0.03 loss, 5 % throughput, 10 %
// time and latency (15 % from p99), 3 % ratios (5 % across nodes).
double default_margin(const v1::Recipe& recipe, const v1::Expect& expect);
Tolerance tolerance_of(const v1::Recipe& recipe, const v1::Expect& expect,
                       const Published& published);
// "±0.30", "−5 %"; "" where the rule has its own interval.
std::string margin_text(Statistic statistic, const Tolerance& tolerance);

// What the values of a row are, so that another run's can be held against them.
Statistic statistic_of(const v1::Expect& expect);

// "accuracy", "stability across seeds", "time to train", "training throughput", "inference
// throughput", "latency", "scaling".
std::string group_of(const v1::Recipe& recipe, const v1::Expect& expect);

}  // namespace reciperun
