// Rows of one bench configuration: throughput and latency.
#include <numeric>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/quantiles.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"

namespace reciperun {
namespace {

// Share of the rate of computing alone from which on loading is hidden behind it.
constexpr double kComputing = 0.9;

double mean_seconds(const BenchRepeat& r) {
  return std::accumulate(r.step_seconds.begin(), r.step_seconds.end(), 0.0) /
         static_cast<double>(r.step_seconds.size());
}

// Means are defined for any number of steps; what is read off a rank needs enough of them.
bool is_rank_based(const v1::Quantile& q) {
  return q.def() != v1::Quantile::MEAN_OF_LOWEST && q.def() != v1::Quantile::MEAN_UPPER_CI;
}

std::optional<double> latency_of(const BenchRepeat& repeat, const v1::Quantile& quantile,
                                 const QuantileOptions& options, std::string& why) {
  const auto n = static_cast<int>(repeat.step_seconds.size());
  why = "n too small: " + std::to_string(n) + " steps";
  if (is_rank_based(quantile) && n < minimum_samples(quantile.p())) {
    why += ", " + std::to_string(minimum_samples(quantile.p())) + " needed";
    return std::nullopt;
  }
  return estimate_quantile(repeat.step_seconds, quantile, options);
}

// Beside a published estimator that is no percentile stands the true one.
std::string true_percentile(const RowContext& c, const BenchResult& bench) {
  if (!c.expect.has_tail() || c.expect.tail().q().def() == v1::Quantile::NEAREST_RANK) return "";
  std::vector<double> all;
  for (const BenchRepeat& r : bench.repeats)
    all.insert(all.end(), r.step_seconds.begin(), r.step_seconds.end());
  v1::Quantile q = c.expect.tail().q();
  const std::string estimator = quantile_title(q);
  q.set_def(v1::Quantile::NEAREST_RANK);
  const auto value = estimate_quantile(all, q);
  if (!value) return "";
  std::string text = "judged by " + estimator + "; true " + quantile_title(q) + " " +
                     significant(*value * c.factor);
  if (const auto interval = quantile_interval(all, q.p())) {
    text += " (" + significant(interval->interval.lower * c.factor) + " … " +
            significant(interval->interval.upper * c.factor) + ")";
  }
  return text;
}

// Which half of a step was the limit, where loading was timed with computing: on a processor the
// two also take cores from each other. "" if computing was.
std::string input_note(const RowContext& c, const BenchResult& bench) {
  std::vector<double> loading, computing, together;
  for (const BenchRepeat& repeat : bench.repeats) {
    if (repeat.load_rate <= 0 || repeat.compute_rate <= 0) return "";
    loading.push_back(repeat.load_rate * c.factor);
    computing.push_back(repeat.compute_rate * c.factor);
    together.push_back(repeat.items_per_second * c.factor);
  }
  const double load = median(loading), compute = median(computing), rate = median(together);
  const std::string halves = "loading alone gives " + significant(load) + " " + c.expect.unit() +
                             ", computing alone " + significant(compute);
  if (load < compute) return "input-bound: " + halves;
  if (rate > kComputing * compute) return "";
  return "loading costs " + fixed(100 * (1 - rate / compute), 0) + " %: " + halves;
}

void add_note(Row& row, const std::string& text) {
  if (!text.empty()) row.note += (row.note.empty() ? "" : "; ") + text;
}

}  // namespace

const BenchResult* result_of(const v1::Expect& expect, const Measurements& m) {
  for (const BenchResult& b : m.benches) {
    const bool same_batch = expect.scope().batch() == 0 || expect.scope().batch() == b.batch;
    const bool same_devices =
        expect.scope().devices() == 0 || expect.scope().devices() == b.devices;
    if (b.bench == expect.bench() && same_batch && same_devices) return &b;
  }
  return nullptr;
}

std::vector<double> bench_values(const v1::Recipe& recipe, const v1::Expect& expect,
                                 const BenchResult& bench, double factor, std::string& why) {
  std::vector<double> values;
  const v1::Bench* definition = find_bench(recipe, bench.bench);
  const QuantileOptions options{
      definition == nullptr ? 0 : static_cast<int>(definition->drop_slowest()), 2};
  for (const BenchRepeat& repeat : bench.repeats) {
    if (expect.metric() == "throughput") {
      values.push_back(repeat.items_per_second * factor);
    } else if (repeat.step_seconds.empty()) {
      why = "no step times recorded";
      return {};
    } else if (expect.metric() == "latency_mean") {
      values.push_back(mean_seconds(repeat) * factor);
    } else {
      const auto latency = latency_of(repeat, quantile_of(expect), options, why);
      if (!latency) return {};
      values.push_back(*latency * factor);
    }
  }
  return values;
}

Measured measure_bench(const RowContext& c, Row& row) {
  Measured out;
  const BenchResult* bench = result_of(c.expect, c.measurements);
  if (bench == nullptr || (bench->repeats.empty() && bench->failure.empty())) {
    out.missing = "bench '" + c.expect.bench() + "' was not run";
    const uint32_t needed = devices_of(c.recipe, c.expect);
    if (needed > 1) out.missing += " on " + std::to_string(needed) + " devices";
    return out;
  }
  out.attempted = true;
  out.benches = {bench};
  if (!bench->failure.empty()) {
    out.missing = "bench failed: " + bench->failure;
    return out;
  }
  out.values = bench_values(c.recipe, c.expect, *bench, c.factor, out.missing);
  if (out.values.empty()) return out;
  out.missing.clear();
  row.values = out.values;
  const MedianInterval median_of = median_interval(out.values);
  row.measured = significant(median_of.median);
  row.measured_n = std::to_string(out.values.size());
  if (out.values.size() >= 2) {
    row.interval =
        significant(median_of.interval.lower) + " … " + significant(median_of.interval.upper);
  }
  const std::string noise = noise_text(bench->noise);
  // Said once per configuration, at its throughput; a noise that blocks is the reason of every
  // verdict, and needs no note beside it.
  const bool is_reason = worst(bench->noise) == NoiseLevel::kBlock && c.published.value;
  if (!noise.empty() && c.expect.metric() == "throughput" && !is_reason)
    add_note(row, "noisy: " + noise);
  if (c.expect.metric() == "throughput") add_note(row, input_note(c, *bench));
  if (!bench->unwatched.empty() && c.expect.metric() == "throughput")
    add_note(row, "GPU clocks and throttling not watched: " + bench->unwatched);
  add_note(row, true_percentile(c, *bench));
  return out;
}

Judgement compare_bench(const RowContext& c, const Measured& m) {
  return judge_ratio(*c.published.value, m.values, c.tolerance);
}

}  // namespace reciperun
