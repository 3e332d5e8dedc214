// What more devices than anyone has at hand would do.
//
// A forecast is an interval. Its fast end is a stack that hides the all-reduce and waits for
// nothing but stragglers (κ = 0.5 % per doubling); its slow end has the published stack's own
// constants and, across nodes, the wait that the published large runs show beyond compute and
// bandwidth: about 160 ms per step on 48 nodes, taken to grow with the logarithm of their number
// (57 ms on 4 nodes, where the published tables have 8 to 112). Both ends are widened by twice the
// model's held-out error: 3 % inside a node, 10 % across nodes.
#pragma once

#include <string>

#include "tools/recipe_run/scaling/series.h"
#include "tools/recipe_run/statistics/mean_tests.h"

namespace reciperun {

struct ScalingForecast {
  int devices = 1;
  int nodes = 1;
  double fast = 0;  // items/s
  double slow = 0;
  Interval interval;  // of both, widened
};

// `work.single_rate` as measured on one device; `stack`: the published stack, calibrated on
// `machine`.
ScalingForecast forecast(const DeviceWork& work, const ScalingMachine& machine, int devices,
                         const Calibration& stack, bool reduced_precision);

// Relative error allowed for: 0.03 on one node, 0.10 on several.
double forecast_error(int nodes);

// The rate of N devices with our own stack on one node, from one device's own: a plain line for
// rows that could not be run.
double own_stack_rate(double single_rate, int devices);

// Forecasts of every published series from 8 to `most` devices, doubling, as text. Weak scaling:
// the work per device stays; where a series accumulates, its global batch stays as long as that can
// be.
std::string forecast_text(const PublishedScaling& published, int most);

}  // namespace reciperun
