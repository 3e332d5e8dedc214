// An imagined run that finds what was published, and a simulation of many for the probabilities.
#include "tools/recipe_run/judge/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/stats/looks.h"

namespace reciperun {
namespace {

constexpr int kDraws = 4000;  // a probability within 0.01
constexpr uint32_t kMostSeeds = 100;
constexpr double kScatter = 1e-3;  // of imagined values around the published one

// Around `center`, not two of them equal.
std::vector<double> scattered(double center, size_t n) {
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) {
    const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(n) - 0.5;
    values.push_back(center * (1 + kScatter * place));
  }
  return values;
}

// With this standard deviation, evenly spaced.
std::vector<double> with_spread(double sd, size_t n) {
  const auto count = static_cast<double>(n);
  const double step = n < 2 ? 0 : sd / std::sqrt(count * (count + 1) / 12);
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i)
    values.push_back(1 + step * (static_cast<double>(i) - (count - 1) / 2));
  return values;
}

class Rehearsal {
 public:
  Rehearsal(const v1::Recipe& recipe, const Stage& stage) : recipe_(recipe) {
    m_.device = stage.device;
    m_.not_comparable = incomparable_as_it_stands(recipe);
    const v1::Trials& trials = recipe.trials();
    m_.level = level_at({}, trials.count(), trials.max_count() > trials.count());
    m_.trials.resize(trials.count());
    for (size_t i = 0; i < m_.trials.size(); ++i) m_.trials[i].seed = i;
    if (stage.emulated_devices > 0) {
      m_.devices = stage.emulated_devices;
      m_.evidence = Evidence::kEmulated;
      return;
    }
    for (const v1::Bench& bench : recipe.bench()) add_bench(bench, stage.devices);
  }

  // Makes the run find `value`, in the row's unit.
  void find(const v1::Expect& e, double value) {
    value /= unit_factor(e.unit());
    if (kind_of(e) == RowKind::kBench) {
      for (BenchResult& bench : m_.benches) {
        if (bench.bench == e.bench()) set_repeats(bench, e, value);
      }
      return;
    }
    const bool spread = statistic_of(e) == Statistic::kSpread;
    const size_t n = m_.trials.size();
    const std::vector<double> values = spread ? with_spread(value, n) : scattered(value, n);
    for (size_t i = 0; i < n; ++i) {
      m_.trials[i].metrics[split_metric(e.metric()).base] = values[i];
      m_.trials[i].train_seconds = kind_of(e) == RowKind::kTime ? values[i] : 1;
    }
    if (kind_of(e) == RowKind::kTime) set_training_rates(e, value);
  }

  // The terms of a ratio, as far as they stand in this recipe.
  void find_ratio(const v1::Expect& e) {
    const v1::Expect* den = find_expectation(recipe_, e.ratio().den());
    const v1::Expect* num = find_expectation(recipe_, e.ratio().num());
    const double base = den == nullptr ? 1 : published_value(*den).value_or(1);
    if (den != nullptr && !den->has_ratio()) find(*den, base);
    if (num != nullptr && !num->has_ratio()) find(*num, base * e.ratio().v());
  }

  const Measurements& measurements() const { return m_; }

 private:
  void add_bench(const v1::Bench& bench, uint32_t available) {
    std::vector<uint32_t> devices(bench.devices().begin(), bench.devices().end());
    if (devices.empty()) devices.push_back(1);
    for (const uint32_t count : devices) {
      if (count > available) continue;
      for (const uint32_t batch : bench.batch()) {
        BenchResult result;
        result.bench = bench.id();
        result.devices = count;
        result.batch = batch;
        result.repeats.resize(bench.repeats());
        for (BenchRepeat& repeat : result.repeats) repeat.items_per_second = 1;
        m_.benches.push_back(std::move(result));
      }
    }
  }

  // Such that a projection of the training takes `seconds`.
  void set_training_rates(const v1::Expect& e, double seconds) {
    double items = 0;
    for (const TrainingPhase& phase : training_phases(recipe_, devices_of(recipe_, e)))
      items += phase.items;
    if (items <= 0) return;  // the recipe does not say how long it trains
    for (BenchResult& bench : m_.benches) {
      for (BenchRepeat& repeat : bench.repeats) repeat.items_per_second = items / seconds;
    }
  }

  void set_repeats(BenchResult& bench, const v1::Expect& e, double value) const {
    const std::vector<double> values = scattered(value, bench.repeats.size());
    const uint32_t steps = find_bench(recipe_, e.bench())->measure_steps();
    for (size_t i = 0; i < values.size(); ++i) {
      if (e.metric() == "throughput") {
        bench.repeats[i].items_per_second = values[i];
      } else {
        bench.repeats[i].step_seconds = scattered(values[i], steps);
      }
    }
  }

  const v1::Recipe& recipe_;
  Measurements m_;
};

// Draws runs of the published system and of ours, which is the same.
class Simulation {
 public:
  Simulation(const v1::Recipe& recipe, const v1::Expect& expect, double spread_factor)
      : most_seeds_(recipe.trials().max_count() / trials_per_seed(recipe)),
        tolerance_(tolerance_of(recipe, expect)),
        published_(published_runs(recipe, expect)) {
    published_.runs.n = std::max(1, published_.runs.n);
    sd_ = spread_factor * (published_.has_spread() ? published_.runs.sd
                           : published_.lender     ? published_.lender->sd
                                                   : 0);
  }

  bool has_spread() const { return sd_ > 0; }

  Chance chance(uint32_t seeds) {
    random_.seed(2022);
    const std::vector<uint32_t> looks = planned_looks(seeds, most_seeds_);
    Chance out;
    for (int i = 0; i < kDraws; ++i) {
      const Published theirs = draw_published();
      std::vector<double> ours;
      for (size_t look = 0; look < looks.size(); ++look) {
        while (ours.size() < looks[look]) ours.push_back(draw(1));
        Tolerance t = tolerance_;
        t.level = looks.size() == 1 ? t.level : level_of_look(static_cast<int>(look));
        const Judgement j = judge_runs(Statistic::kMean, theirs, ours, t);
        const double hit = j.verdict == Verdict::kReproduced ? 1.0 / kDraws : 0;
        out.with_top_up += hit;
        if (look == 0) out.at_once += hit;
        if (!j.more_runs_help) break;
      }
    }
    return out;
  }

 private:
  // The mean of n runs.
  double draw(int n) { return published_.runs.mean + sd_ / std::sqrt(n) * normal_(random_); }

  Summary draw_runs(int n) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(draw(1));
    return summarise(values);
  }

  Published draw_published() {
    Published out;
    if (published_.has_spread()) {
      out.runs = draw_runs(published_.runs.n);
    } else {
      out.lender = draw_runs(published_.lender->n);
      out.runs = {draw(published_.runs.n), 0, published_.runs.n, 0};
    }
    out.runs.rounding_variance = published_.runs.rounding_variance;
    return out;
  }

  uint32_t most_seeds_;
  Tolerance tolerance_;
  Published published_;
  double sd_ = 0;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

bool is_simulated(const v1::Expect& e) {
  return has_published_value(e) && statistic_of(e) == Statistic::kMean;
}

}  // namespace

Row rehearse(const v1::Recipe& recipe, const v1::Expect& expect, const Stage& stage) {
  Rehearsal rehearsal(recipe, stage);
  if (expect.has_ratio()) {
    rehearsal.find_ratio(expect);
  } else {
    rehearsal.find(expect, published_value(expect).value_or(1));
  }
  return make_row(recipe, expect, rehearsal.measurements());
}

std::optional<Chance> chance_of_reproduced(const v1::Recipe& recipe, const v1::Expect& expect,
                                           uint32_t seeds, double spread_factor) {
  if (!is_simulated(expect) || seeds == 0) return std::nullopt;
  Simulation simulation(recipe, expect, spread_factor);
  if (!simulation.has_spread()) return std::nullopt;
  return simulation.chance(seeds);
}

uint32_t seeds_for(double probability, const v1::Recipe& recipe, const v1::Expect& expect,
                   double spread_factor) {
  if (!is_simulated(expect)) return 0;
  Simulation simulation(recipe, expect, spread_factor);
  const auto enough = [&](uint32_t k) { return simulation.chance(k).at_once >= probability; };
  uint32_t low = 1, high = 2;  // one run is never enough
  while (high <= kMostSeeds && !enough(high)) {
    low = high;
    high *= 2;
  }
  if (high > kMostSeeds) return 0;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace reciperun
