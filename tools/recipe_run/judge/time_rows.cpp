// Time to train: as measured, or projected from measured throughput where nobody trained.
#include <fmt/core.h>

#include <map>
#include <stdexcept>

#include "tools/recipe_run/judge/row_kinds.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr double kModelError = 0.02;  // of a projection

// A measured throughput, and the run it was measured in ("" = the row's own).
struct MeasuredRate {
  MedianInterval rate;
  std::string run;
  const BenchResult* bench = nullptr;
};

std::optional<MeasuredRate> rate_in(const v1::Recipe& recipe, const Measurements& measurements,
                                    const TrainingPhase& phase, uint32_t devices) {
  const BenchResult* result = training_result(recipe, measurements, phase, devices);
  if (result == nullptr) return std::nullopt;
  return MeasuredRate{median_interval(result->rates()), "", result};
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

// Nothing unless every phase's throughput was measured on as many devices as the row is about.
Measured projected(const RowContext& c) {
  const uint32_t devices = devices_of(c.recipe, c.expect);
  Measured out;
  std::vector<PhaseRate> phases;
  for (const TrainingPhase& phase : training_phases(c.recipe, devices)) {
    const auto found =
        phase.items > 0 ? measured_rate(c, phase, devices) : std::optional<MeasuredRate>();
    if (!found) return {};
    phases.push_back({phase.items, found->rate.median, found->rate.interval});
    out.benches.push_back(found->bench);
    if (!found->run.empty()) out.note = "throughput of run " + found->run;
  }
  const Projection seconds = project_time(phases);
  out.projection =
      Projection{seconds.value * c.factor,
                 {seconds.interval.lower * c.factor, seconds.interval.upper * c.factor}};
  out.text = significant(out.projection->value, 3);
  out.note = joined_notes("projected; start-up and evaluation are not in it", out.note);
  return out;
}

}  // namespace

const BenchResult* training_result(const v1::Recipe& recipe, const Measurements& measurements,
                                   const TrainingPhase& phase, uint32_t devices) {
  const v1::Bench* bench = training_bench(recipe, phase);
  for (const BenchResult& result : measurements.benches) {
    if (bench != nullptr && result.bench == bench->id() && result.devices == devices &&
        result.batch == phase.batch_per_device && !result.repeats.empty())
      return &result;
  }
  return nullptr;
}

Projection project_time(const std::vector<PhaseRate>& phases) {
  Projection out;
  for (const PhaseRate& phase : phases) {
    if (!(phase.rate > 0) || !(phase.interval.lower > 0) || phase.items < 0)
      throw std::domain_error("a projection needs rates above zero");
    out.value += phase.items / phase.rate;
    out.interval.lower += phase.items / phase.interval.upper;
    out.interval.upper += phase.items / phase.interval.lower;
  }
  out.interval.lower *= 1 - kModelError;
  out.interval.upper *= 1 + kModelError;
  return out;
}

Measured measure_time(const RowContext& c) {
  Measured out;
  const uint32_t needed = devices_of(c.recipe, c.expect);
  const bool as_published = !c.published || needed == c.measurements.devices;
  for (const Trial& trial : c.measurements.trials) {
    if (!as_published || !trial.failure.empty()) continue;
    out.values.push_back(trial.train_seconds * c.factor);
    if (trial.segments > 1) out.unfit = "resumed: the time spans an interruption";
  }
  if (!out.values.empty()) {
    out.text = significant(median(out.values), 3);
    out.count = std::to_string(out.values.size());
    return out;
  }
  out = projected(c);
  if (out.projection) return out;
  out.missing = fmt::format(
      "{}, and no training throughput to project from; 'recipe-run report RUN --with SPEED_RUN' "
      "takes it from another recipe's run",
      as_published ? "no trial finished" : "not trained on " + device_count(needed));
  return out;
}

}  // namespace reciperun
