// Rows of bench configurations, throughput and latency, and the ratios of two timed rows: weak
// scaling, the speed-up of a precision.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "tools/recipe_run/judge/row_kinds.h"
#include "tools/recipe_run/stats/quantiles.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// Share of the rate of computing alone from which on loading is hidden behind it.
constexpr double kComputing = 0.9;

// Of all steps but the slowest.
double mean_seconds(const BenchRepeat& r, size_t slowest) {
  std::vector<double> kept = r.step_seconds;
  std::sort(kept.begin(), kept.end());
  kept.resize(kept.size() - slowest);
  return std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
}

// The repeats of the configuration that the row is about, or nullptr.
const BenchResult* result_of(const RowContext& c) {
  const v1::Scope& scope = c.expect.scope();
  for (const BenchResult& b : c.measurements.benches) {
    if (b.bench == c.expect.bench() && (scope.batch() == 0 || scope.batch() == b.batch) &&
        (scope.devices() == 0 || scope.devices() == b.devices))
      return &b;
  }
  return nullptr;
}

size_t drop_slowest(const RowContext& c) {
  const v1::Bench* bench = find_bench(c.recipe, c.expect.bench());
  return bench == nullptr ? 0 : bench->drop_slowest();
}

// Why the steps of a repeat do not carry the row's estimate, "" if they do. Means are defined for
// any number of steps; what is read off a rank needs enough of them.
std::string too_few_steps(const RowContext& c, const BenchRepeat& repeat) {
  if (c.expect.metric() == "throughput") return "";
  const size_t steps = repeat.step_seconds.size();
  if (steps == 0) return "no step times recorded";
  size_t needed = drop_slowest(c) + 1;
  if (c.expect.metric() != "latency_mean") {
    const Quantile q = quantile_of(c.expect);
    needed = q.estimator == Estimator::kMeanOfLowest  ? drop_slowest(c) + 2
             : q.estimator == Estimator::kMeanUpperCi ? 2
                                                      : static_cast<size_t>(minimum_samples(q.p));
  }
  if (steps >= needed) return "";
  const v1::Bench* bench = find_bench(c.recipe, c.expect.bench());
  std::string settings;
  if (bench != nullptr && bench->measure_steps() < needed) settings += ", measure_steps";
  if (bench != nullptr && bench->max_seconds() > 0 && steps < bench->measure_steps())
    settings += ", max_seconds";
  return fmt::format("n too small: {} steps, {} needed{}", steps, needed,
                     settings.empty() ? ""
                                      : fmt::format("; raise {} of bench.{}", settings.substr(2),
                                                    c.expect.bench()));
}

// One value of a repeat that has enough steps, in the row's unit.
double value_of(const RowContext& c, const BenchRepeat& repeat) {
  if (c.expect.metric() == "throughput") return repeat.items_per_second * c.factor;
  if (c.expect.metric() == "latency_mean") return mean_seconds(repeat, drop_slowest(c)) * c.factor;
  const QuantileOptions options{static_cast<int>(drop_slowest(c)), 2};
  return estimate_quantile(repeat.step_seconds, quantile_of(c.expect), options).value_or(0) *
         c.factor;
}

// Beside a published estimator that is no percentile stands the true one.
std::string true_percentile(const RowContext& c, const BenchResult& bench) {
  Quantile q = quantile_of(c.expect);
  if (!c.expect.has_tail() || q.estimator == Estimator::kNearestRank) return "";
  std::vector<double> all;
  for (const BenchRepeat& r : bench.repeats)
    all.insert(all.end(), r.step_seconds.begin(), r.step_seconds.end());
  const std::string estimator = quantile_title(q);
  q.estimator = Estimator::kNearestRank;
  const auto value = estimate_quantile(all, q);
  if (!value) return "";
  std::string text = fmt::format("judged by {}; true {} {}", estimator, quantile_title(q),
                                 significant(*value * c.factor));
  if (const auto interval = quantile_interval(all, q.p))
    text += fmt::format(" ({} … {})", significant(interval->interval.lower * c.factor),
                        significant(interval->interval.upper * c.factor));
  return text;
}

// Whether the loader kept up with the device, from loading and computing each alone.
std::string input_note(const RowContext& c, const BenchResult& bench) {
  std::vector<double> loading, computing, together;
  for (const BenchRepeat& r : bench.repeats) {
    if (r.load_rate <= 0 || r.compute_rate <= 0) return "";
    loading.push_back(r.load_rate * c.factor);
    computing.push_back(r.compute_rate * c.factor);
    together.push_back(r.items_per_second * c.factor);
  }
  const double load = median(loading), compute = median(computing), rate = median(together);
  const std::string halves = fmt::format("loading alone gives {} {}, computing alone {}",
                                         significant(load), c.expect.unit(), significant(compute));
  if (load < compute) return "input-bound: " + halves;
  if (rate > kComputing * compute) return "";
  return fmt::format("loading costs {} %: {}", fixed(100 * (1 - rate / compute), 0), halves);
}

// Said once per configuration, at its throughput. A noise that blocks is the reason of every
// verdict, and needs no note beside it.
std::string configuration_note(const RowContext& c, const BenchResult& bench) {
  if (c.expect.metric() != "throughput") return "";
  const bool is_reason = worst(bench.noise) == NoiseLevel::kBlock && c.published;
  const std::string noise = is_reason ? "" : noise_text(bench.noise);
  const std::string unwatched =
      bench.unwatched.empty() ? "" : "GPU clocks and throttling not watched: " + bench.unwatched;
  return joined_notes(joined_notes(noise.empty() ? "" : "noisy: " + noise, input_note(c, bench)),
                      unwatched);
}

// A row that one term of a ratio is about, and the run that measured it.
struct Term {
  const v1::Recipe* recipe = nullptr;
  const v1::Expect* row = nullptr;
  const Measurements* measurements = nullptr;
  std::string run;      // "" = that of the ratio's row
  std::string missing;  // "" or why there is none
};

// `recipe`: "" for that of the ratio's row.
Term find_term(const RowContext& c, const std::string& recipe, const std::string& id) {
  Term out;
  if (recipe.empty() || recipe == c.recipe.id()) {
    out = {&c.recipe, find_expectation(c.recipe, id), &c.measurements, "", ""};
  } else {
    for (const OtherRun& other : c.measurements.others) {
      if (other.recipe.id() == recipe)
        out = {&other.recipe, find_expectation(other.recipe, id), &other.measurements, other.run,
               ""};
    }
    if (out.recipe == nullptr)
      out.missing = fmt::format(
          "needs a run of '{}' too; 'recipe-run report RUN --with THAT_RUN' puts them together",
          recipe);
  }
  if (out.missing.empty() && out.row == nullptr)
    out.missing = fmt::format("'{}' has no row '{}'", out.recipe->id(), id);
  if (out.missing.empty() && out.row->has_ratio())
    out.missing = fmt::format("'{}' of '{}' is a ratio itself", id, out.recipe->id());
  return out;
}

std::string incomparable_term(const RowContext& c, const Term& term) {
  const Measurements& m = *term.measurements;
  if (&m == &c.measurements) return "";
  if (m.machine != c.measurements.machine || m.device != c.measurements.device)
    return fmt::format("run {} is of another machine: {}", term.run, m.device);
  return m.not_comparable.empty() ? "" : fmt::format("run {}: {}", term.run, m.not_comparable);
}

// A term's value and where it may lie, in base units: what was projected, or the median.
Projection spread_of(const Measured& m, double factor) {
  if (m.projection)
    return {m.projection->value / factor,
            {m.projection->interval.lower / factor, m.projection->interval.upper / factor}};
  const MedianInterval i = median_interval(m.values);
  return {i.median / factor, {i.interval.lower / factor, i.interval.upper / factor}};
}

std::vector<double> in_base_units(std::vector<double> values, double factor) {
  for (double& v : values) v /= factor;
  return values;
}

}  // namespace

Measured measure_bench(const RowContext& c) {
  Measured out;
  const BenchResult* bench = result_of(c);
  if (bench == nullptr || (bench->repeats.empty() && bench->failure.empty())) {
    const uint32_t needed = devices_of(c.recipe, c.expect);
    out.missing = fmt::format("bench '{}' has no result{}", c.expect.bench(),
                              needed > 1 ? " on " + device_count(needed) : "");
    return out;
  }
  out.attempted = true;
  out.benches = {bench};
  if (!bench->failure.empty()) out.missing = "bench failed: " + bench->failure;
  for (const BenchRepeat& repeat : bench->repeats) {
    if (out.missing.empty()) out.missing = too_few_steps(c, repeat);
  }
  if (!out.missing.empty()) return out;
  for (const BenchRepeat& repeat : bench->repeats) out.values.push_back(value_of(c, repeat));
  const MedianInterval m = median_interval(out.values);
  out.text = significant(m.median);
  out.count = std::to_string(out.values.size());
  if (out.values.size() >= 2)
    out.own_interval =
        fmt::format("{} … {}", significant(m.interval.lower), significant(m.interval.upper));
  out.note = joined_notes(configuration_note(c, *bench), true_percentile(c, *bench));
  return out;
}

Measured measure_ratio(const RowContext& c) {
  const v1::Ratio& ratio = c.expect.ratio();
  const Term terms[] = {find_term(c, ratio.num_recipe(), ratio.num()),
                        find_term(c, ratio.den_recipe(), ratio.den())};
  Measured out;
  std::vector<Measured> sides;
  std::vector<double> factors;
  for (const Term& term : terms) {
    out.missing = term.missing;
    if (!out.missing.empty()) return out;
    const RowContext context(*term.recipe, *term.row, *term.measurements);
    sides.push_back(measure(context));
    factors.push_back(context.factor);
    out.missing = sides.back().missing;
    out.attempted = sides.back().attempted;
    if (!out.missing.empty()) {
      out.missing = fmt::format("'{}' of '{}': {}", term.row->id(), term.recipe->id(), out.missing);
      return out;
    }
    out.benches.insert(out.benches.end(), sides.back().benches.begin(), sides.back().benches.end());
    if (out.incomparable.empty()) out.incomparable = incomparable_term(c, term);
    if (out.unfit.empty()) out.unfit = sides.back().unfit;
    if (!term.run.empty()) out.note = "with run " + term.run;
  }
  const int digits = std::max(2, published_decimals(c.expect));
  if (sides[0].projection || sides[1].projection) {
    const Projection num = spread_of(sides[0], factors[0]), den = spread_of(sides[1], factors[1]);
    out.projection = Projection{
        num.value / den.value,
        {num.interval.lower / den.interval.upper, num.interval.upper / den.interval.lower}};
    out.text = fixed(out.projection->value, digits);
    return out;
  }
  out.values = in_base_units(sides[0].values, factors[0]);
  out.denominator = in_base_units(sides[1].values, factors[1]);
  out.text = fixed(ratio_interval(out.values, out.denominator).ratio, digits);
  out.count = std::to_string(std::min(out.values.size(), out.denominator.size()));
  return out;
}

}  // namespace reciperun
