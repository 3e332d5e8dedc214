// Time to train: as measured, or projected from measured throughput where nobody trained.
#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"

namespace reciperun {
namespace {

// Items that a training sees in all; 0 if the recipe does not say how long an epoch is.
double items_of(const v1::Recipe& recipe, const v1::Training& training, uint32_t devices) {
  const double global_batch = static_cast<double>(training.batch_per_device()) *
                              std::max(1u, training.accumulate()) * devices;
  if (training.has_steps()) {
    const double steps = static_cast<double>(training.steps());
    return (training.steps_divided_by_devices() ? steps / devices : steps) * global_batch;
  }
  for (const v1::DataRef& data : recipe.data()) {
    if (data.role() != "train") continue;
    const auto samples = static_cast<double>(
        data.nominal_epoch_samples() > 0 ? data.nominal_epoch_samples() : data.expect_samples());
    return training.epochs() * samples;
  }
  return 0;
}

// The measured training rate of a configuration with this many devices and this batch.
const BenchResult* training_result(const RowContext& c, uint32_t devices, uint32_t batch) {
  for (const BenchResult& b : c.measurements.benches) {
    const v1::Bench* bench = find_bench(c.recipe, b.bench);
    if (bench != nullptr && bench->mode() == v1::Bench::TRAIN && b.devices == devices &&
        b.batch == batch && !b.repeats.empty())
      return &b;
  }
  return nullptr;
}

std::optional<Projection> projected(const RowContext& c) {
  // Phases differ in sequence length; one throughput does not speak for all of them.
  if (c.recipe.training().phase_size() > 1) return std::nullopt;
  const v1::Training& training = c.recipe.training();
  const uint32_t devices = devices_of(c.recipe, c.expect);
  const BenchResult* bench = training_result(c, devices, training.batch_per_device());
  const double items = items_of(c.recipe, training, devices);
  if (bench == nullptr || items <= 0) return std::nullopt;
  std::vector<double> rates;
  for (const BenchRepeat& r : bench->repeats) rates.push_back(r.items_per_second);
  const MedianInterval rate = median_interval(rates);
  return project_time({{items, rate.median, rate.interval}}, {});
}

}  // namespace

Measured measure_time(const RowContext& c, Row& row) {
  Measured out;
  for (const Trial& trial : c.measurements.trials) {
    if (trial.failure.empty()) out.values.push_back(trial.train_seconds * c.factor);
  }
  if (!out.values.empty()) {
    row.values = out.values;
    row.measured = significant(median(out.values), 3);
    row.measured_n = std::to_string(out.values.size());
    return out;
  }
  out.projection = projected(c);
  if (!out.projection) {
    out.missing = "no trial finished, and no training throughput to project from";
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
