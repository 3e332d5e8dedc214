#include "tools/recipe_run/plan/cost.h"

#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/summary.h"
#include "tools/recipe_run/verdict/expectation.h"
#include "tools/recipe_run/verdict/training_length.h"

namespace reciperun {
namespace {

constexpr double kHour = 3600;
constexpr double kBytesPerParameter = 16;
constexpr double kBytesPerTrainingStep = 40;  // five columns of steps.bin
constexpr double kBytesPerMeasuredStep = 8;

// Published throughput of a phase on `devices`, 0 if the recipe has no such row.
double published_rate(const v1::Recipe& recipe, const TrainingPhase& phase, uint32_t devices) {
  const v1::Bench* bench = training_bench(recipe, phase);
  for (const v1::Expect& e : recipe.expect()) {
    if (bench != nullptr && e.bench() == bench->id() && e.metric() == "throughput" &&
        e.has_single() && devices_of(recipe, e) == devices &&
        (e.scope().batch() == 0 || e.scope().batch() == phase.batch_per_device))
      return e.single().v() / unit_factor(e.unit());
  }
  return 0;
}

// Median rate measured on one device, 0 if there is none.
double measured_rate(const v1::Recipe& recipe, const TrainingPhase& phase,
                     const Measurements& earlier) {
  const v1::Bench* bench = training_bench(recipe, phase);
  for (const BenchResult& result : earlier.benches) {
    if (bench == nullptr || result.bench != bench->id() || result.devices != 1 ||
        result.batch != phase.batch_per_device || result.repeats.empty())
      continue;
    std::vector<double> rates;
    for (const BenchRepeat& r : result.repeats) rates.push_back(r.items_per_second);
    return median(rates);
  }
  return 0;
}

uint32_t topology_devices(const v1::Recipe& recipe) {
  return std::max(1u, recipe.topology().nodes()) *
         std::max(1u, recipe.topology().devices_per_node());
}

}  // namespace

std::optional<TrialCost> published_cost(const v1::Recipe& recipe) {
  for (const v1::Expect& e : recipe.expect()) {
    if (kind_of(e) != RowKind::kTime || !e.has_single()) continue;
    const uint32_t devices = devices_of(recipe, e);
    return TrialCost{
        e.single().v() / unit_factor(e.unit()) / kHour * devices,
        "published time of " + std::to_string(devices) + (devices == 1 ? " device" : " devices")};
  }
  const uint32_t devices = topology_devices(recipe);
  double hours = 0;
  for (const TrainingPhase& phase : training_phases(recipe, devices)) {
    const double rate = published_rate(recipe, phase, devices);
    if (rate <= 0 || phase.items <= 0) return std::nullopt;
    hours += phase.items / rate / kHour * devices;
  }
  return TrialCost{hours, "published throughput"};
}

std::optional<TrialCost> own_cost(const v1::Recipe& recipe, const Measurements& earlier) {
  std::vector<double> seconds;
  for (const Trial& trial : earlier.trials) {
    if (trial.failure.empty()) seconds.push_back(trial.train_seconds);
  }
  if (!seconds.empty())
    return TrialCost{median(seconds) / kHour, std::to_string(seconds.size()) + " finished trials"};
  double hours = 0;
  for (const TrainingPhase& phase : training_phases(recipe, topology_devices(recipe))) {
    const double rate = measured_rate(recipe, phase, earlier);
    if (rate <= 0 || phase.items <= 0) return std::nullopt;
    hours += phase.items / rate / kHour;
  }
  return TrialCost{hours, "measured throughput of one device"};
}

double disk_bytes(const v1::Recipe& recipe, uint32_t trials) {
  double steps = 0;
  for (const TrainingPhase& phase : training_phases(recipe, topology_devices(recipe)))
    steps += phase.steps;
  const auto parameters = static_cast<double>(recipe.model().expect_parameters());
  double bytes = trials * (kBytesPerParameter * parameters + kBytesPerTrainingStep * steps);
  for (const v1::Bench& bench : recipe.bench())
    bytes += kBytesPerMeasuredStep * bench.measure_steps() * bench.repeats() * bench.batch_size() *
             std::max(1, bench.devices_size());
  return bytes;
}

}  // namespace reciperun
