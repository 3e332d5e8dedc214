// Time to train: as measured, or projected from measured throughput where nobody trained.
#include <vector>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"
#include "tools/recipe_run/verdict/training_length.h"

namespace reciperun {
namespace {

std::optional<ProjectedPhase> projected_phase(const RowContext& c, const TrainingPhase& phase,
                                              uint32_t devices) {
  const v1::Bench* bench = training_bench(c.recipe, phase);
  if (bench == nullptr || phase.items <= 0) return std::nullopt;
  for (const BenchResult& result : c.measurements.benches) {
    if (result.bench != bench->id() || result.devices != devices ||
        result.batch != phase.batch_per_device || result.repeats.empty())
      continue;
    std::vector<double> rates;
    for (const BenchRepeat& r : result.repeats) rates.push_back(r.items_per_second);
    const MedianInterval rate = median_interval(rates);
    return ProjectedPhase{phase.items, rate.median, rate.interval};
  }
  return std::nullopt;
}

// Absent unless every phase's throughput was measured on as many devices as the row is about.
std::optional<Projection> projected(const RowContext& c) {
  const uint32_t devices = devices_of(c.recipe, c.expect);
  std::vector<ProjectedPhase> phases;
  for (const TrainingPhase& phase : training_phases(c.recipe, devices)) {
    const auto projected = projected_phase(c, phase, devices);
    if (!projected) return std::nullopt;
    phases.push_back(*projected);
  }
  return project_time(phases, {});
}

}  // namespace

Measured measure_time(const RowContext& c, Row& row) {
  Measured out;
  const bool as_published =
      !c.published.value || devices_of(c.recipe, c.expect) == c.measurements.devices;
  for (const Trial& trial : c.measurements.trials) {
    if (as_published && trial.failure.empty()) out.values.push_back(trial.train_seconds * c.factor);
  }
  if (!out.values.empty()) {
    row.values = out.values;
    row.measured = significant(median(out.values), 3);
    row.measured_n = std::to_string(out.values.size());
    return out;
  }
  out.projection = projected(c);
  if (!out.projection) {
    const std::string devices = std::to_string(devices_of(c.recipe, c.expect));
    out.missing = (as_published ? "no trial finished" : "not trained on " + devices + " devices") +
                  std::string(", and no training throughput to project from");
    return out;
  }
  row.evidence = Evidence::kProjected;
  row.measured = significant(out.projection->seconds * c.factor, 3);
  row.note = "projected; start-up and evaluation are not in it";
  return out;
}

Judgement compare_time(const RowContext& c, const Measured& m) {
  if (m.projection) {
    const Interval seconds = m.projection->interval;
    return judge_projection(*c.published.value, m.projection->seconds * c.factor,
                            {seconds.lower * c.factor, seconds.upper * c.factor}, c.tolerance);
  }
  return judge_ratio(*c.published.value, m.values, c.tolerance);
}

}  // namespace reciperun
