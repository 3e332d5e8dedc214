// Time to train: as measured, or projected from measured throughput where nobody trained.
#include <map>
#include <vector>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"
#include "tools/recipe_run/verdict/training_length.h"

namespace reciperun {
namespace {

// A measured throughput, and the run it was measured in ("" = the row's own).
struct MeasuredRate {
  MedianInterval rate;
  std::string run;
  const BenchResult* bench = nullptr;
};

std::optional<MeasuredRate> rate_in(const v1::Recipe& recipe, const Measurements& measurements,
                                    const TrainingPhase& phase, uint32_t devices) {
  const v1::Bench* bench = training_bench(recipe, phase);
  if (bench == nullptr) return std::nullopt;
  for (const BenchResult& result : measurements.benches) {
    if (result.bench != bench->id() || result.devices != devices ||
        result.batch != phase.batch_per_device || result.repeats.empty())
      continue;
    std::vector<double> rates;
    for (const BenchRepeat& r : result.repeats) rates.push_back(r.items_per_second);
    return MeasuredRate{median_interval(rates), "", &result};
  }
  return std::nullopt;
}

// Whether a step of `other` is a step of `recipe`: the same model in the same precision.
bool trains_alike(const v1::Recipe& recipe, const v1::Recipe& other) {
  const auto hparams = [](const v1::Recipe& r) {
    return std::map<std::string, std::string>(r.model().hparam().begin(), r.model().hparam().end());
  };
  return recipe.model().arch() == other.model().arch() && hparams(recipe) == hparams(other) &&
         recipe.numerics().compute() == other.numerics().compute();
}

// In this run, or in another one of the same training on the same machine.
std::optional<MeasuredRate> measured_rate(const RowContext& c, const TrainingPhase& phase,
                                          uint32_t devices) {
  if (auto own = rate_in(c.recipe, c.measurements, phase, devices)) return own;
  for (const OtherRun& other : c.measurements.others) {
    const Measurements& m = other.measurements;
    if (!m.not_comparable.empty() || m.machine != c.measurements.machine ||
        m.device != c.measurements.device || !trains_alike(c.recipe, other.recipe))
      continue;
    if (auto rate = rate_in(other.recipe, m, phase, devices)) {
      rate->run = other.run;
      return rate;
    }
  }
  return std::nullopt;
}

// Absent unless every phase's throughput was measured on as many devices as the row is about.
std::optional<Projection> projected(const RowContext& c, Row& row, Measured& out) {
  const uint32_t devices = devices_of(c.recipe, c.expect);
  std::vector<ProjectedPhase> phases;
  for (const TrainingPhase& phase : training_phases(c.recipe, devices)) {
    const auto measured =
        phase.items > 0 ? measured_rate(c, phase, devices) : std::optional<MeasuredRate>();
    if (!measured) return std::nullopt;
    phases.push_back({phase.items, measured->rate.median, measured->rate.interval});
    out.benches.push_back(measured->bench);
    if (!measured->run.empty()) row.note = "throughput of run " + measured->run;
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
  out.projection = projected(c, row, out);
  if (!out.projection) {
    const std::string devices = std::to_string(devices_of(c.recipe, c.expect));
    out.missing = (as_published ? "no trial finished" : "not trained on " + devices + " devices") +
                  std::string(
                      ", and no training throughput to project from; 'recipe-run report RUN "
                      "--with SPEED_RUN' takes it from another recipe's run");
    return out;
  }
  row.evidence = Evidence::kProjected;
  row.measured = significant(out.projection->seconds * c.factor, 3);
  row.note = "projected; start-up and evaluation are not in it" +
             (row.note.empty() ? "" : "; " + row.note);
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
