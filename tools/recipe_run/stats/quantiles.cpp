// The estimators of a quantile, and intervals by ranks or by a moving-block bootstrap.
#include "tools/recipe_run/stats/quantiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// np lands on whole numbers in decimal (0.99 * 100 = 99), but not in binary; this much is forgiven.
constexpr double kSlack = 1e-9;

int floor_rank(double x) { return static_cast<int>(std::floor(x + kSlack)); }
int ceil_rank(double x) { return static_cast<int>(std::ceil(x - kSlack)); }

double type7(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double position = (static_cast<double>(values.size()) - 1) * p;
  const auto below = static_cast<size_t>(floor_rank(position));
  const size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = std::max(0.0, position - static_cast<double>(below));
  return values[below] + fraction * (values[above] - values[below]);
}

std::optional<double> at_rank(const std::vector<double>& sorted, int rank) {
  if (rank < 1 || rank > static_cast<int>(sorted.size())) return std::nullopt;
  return sorted[static_cast<size_t>(rank - 1)];
}

std::optional<double> mean_of_lowest(const std::vector<double>& sorted, double p,
                                     int drop_slowest) {
  const int kept = static_cast<int>(sorted.size()) - drop_slowest;
  const int count = kept > 0 ? floor_rank(kept * p) : 0;
  if (count < 1) return std::nullopt;
  return std::accumulate(sorted.begin(), sorted.begin() + count, 0.0) / count;
}

double mean_upper_ci(const std::vector<double>& values, double p) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  // The code behind the published tables uses these rounded constants; 2.576 against 2.5758 is
  // visible in the third digit.
  const double z = p == 0.90   ? 1.645
                   : p == 0.95 ? 1.960
                   : p == 0.99 ? 2.576
                               : normal_quantile((1 + p) / 2);
  return mean + z * std::sqrt(squares / n) / std::sqrt(n);
}

double mean_of_segments(std::span<const double> samples, double p, int segments) {
  double sum = 0;
  const size_t n = samples.size();
  const auto count = static_cast<size_t>(segments);
  for (size_t s = 0; s < count; ++s) {
    const auto part = samples.subspan(s * n / count, (s + 1) * n / count - s * n / count);
    sum += type7({part.begin(), part.end()}, p);
  }
  return sum / segments;
}

// Deterministic moving-block bootstrap of the nearest-rank quantile.
Interval block_bootstrap(std::span<const double> samples, double p) {
  constexpr int kResamples = 500;
  const size_t n = samples.size();
  const auto block = static_cast<size_t>(std::ceil(std::cbrt(static_cast<double>(n))));
  uint64_t state = 1;
  const auto next = [&state] {
    return state = state * 6364136223846793005u + 1442695040888963407u;
  };
  std::vector<double> estimates;
  std::vector<double> resample;
  const auto rank = static_cast<ptrdiff_t>(ceil_rank(static_cast<double>(n) * p)) - 1;
  for (int r = 0; r < kResamples; ++r) {
    resample.clear();
    while (resample.size() < n) {
      const size_t start = (next() >> 33) % (n - block + 1);
      const size_t take = std::min(block, n - resample.size());
      resample.insert(resample.end(), samples.begin() + static_cast<ptrdiff_t>(start),
                      samples.begin() + static_cast<ptrdiff_t>(start + take));
    }
    std::nth_element(resample.begin(), resample.begin() + rank, resample.end());
    estimates.push_back(resample[static_cast<size_t>(rank)]);
  }
  std::sort(estimates.begin(), estimates.end());
  return {estimates[kResamples * 25 / 1000], estimates[kResamples - 1 - kResamples * 25 / 1000]};
}

}  // namespace

std::optional<double> estimate_quantile(std::span<const double> samples, const Quantile& quantile,
                                        const QuantileOptions& options) {
  const double p = quantile.p;
  if (!(p > 0 && p < 1)) throw std::domain_error("a quantile's p must lie between 0 and 1");
  if (samples.empty()) return std::nullopt;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  switch (quantile.estimator) {
    case Estimator::kNearestRank:
      return at_rank(sorted, std::max(1, ceil_rank(static_cast<double>(sorted.size()) * p)));
    case Estimator::kMeanOfLowest:
      return mean_of_lowest(sorted, p, options.drop_slowest);
    case Estimator::kMeanUpperCi:
      return mean_upper_ci(sorted, p);
    case Estimator::kMeanOfSegmentType7:
      break;
  }
  if (std::ssize(sorted) < options.segments) return std::nullopt;
  return mean_of_segments(samples, p, options.segments);
}

std::string quantile_title(const Quantile& quantile) {
  const std::string percent = shortest(std::round(quantile.p * 1e6) / 1e4);
  switch (quantile.estimator) {
    case Estimator::kNearestRank:
      return "p" + percent;
    case Estimator::kMeanOfLowest:
      return percent + " % (mean of the fastest)";
    case Estimator::kMeanUpperCi:
      return percent + " % (upper limit of the mean)";
    case Estimator::kMeanOfSegmentType7:
      break;
  }
  return "p" + percent + " (mean of segments)";
}

std::optional<Ranks> quantile_ranks(int n, double p) {
  if (n < 1) return std::nullopt;
  const Ranks ranks{binomial_quantile(0.025, n, p), binomial_quantile(0.975, n, p) + 1};
  if (ranks.lower < 1 || ranks.upper > n) return std::nullopt;
  return ranks;
}

int minimum_samples(double p) {
  if (!(p > 0 && p < 1)) throw std::domain_error("a quantile lies between 0 and 1");
  // No more than 2.5 % of all samples of so many may lie on one side of the quantile.
  int n = std::max(1, static_cast<int>(std::log(0.025) / std::log(std::max(p, 1 - p))));
  while (!quantile_ranks(n, p)) ++n;
  return n;
}

double effective_samples(std::span<const double> samples) {
  const size_t n = samples.size();
  if (n < 4) return static_cast<double>(n);
  const Summary summary = summarise(samples);
  const auto covariance = [&](size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < n; ++i)
      sum += (samples[i] - summary.mean) * (samples[i + lag] - summary.mean);
    return sum / static_cast<double>(n);
  };
  const double variance = covariance(0);
  if (variance == 0) return static_cast<double>(n);
  // Initial positive sequence: sums of neighbouring autocorrelations, as long as they stay
  // positive.
  double sum = 0;
  for (size_t lag = 1; lag + 1 < n; lag += 2) {
    const double pair = (covariance(lag) + covariance(lag + 1)) / variance;
    if (pair <= 0) break;
    sum += pair;
  }
  return static_cast<double>(n) / (1 + 2 * sum);
}

std::optional<QuantileInterval> quantile_interval(std::span<const double> samples, double p) {
  const std::optional<Ranks> ranks = quantile_ranks(static_cast<int>(samples.size()), p);
  if (!ranks) return std::nullopt;
  QuantileInterval out;
  out.effective_n = effective_samples(samples);
  if (out.effective_n < 0.5 * static_cast<double>(samples.size())) {
    out.bootstrapped = true;
    out.interval = block_bootstrap(samples, p);
    return out;
  }
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  out.interval = {sorted[static_cast<size_t>(ranks->lower - 1)],
                  sorted[static_cast<size_t>(ranks->upper - 1)]};
  return out;
}

}  // namespace reciperun
