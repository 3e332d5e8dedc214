#include "tools/recipe_run/statistics/convergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tools/recipe_run/statistics/distributions.h"

namespace reciperun {
namespace {

constexpr double kNeverConverged = 1e9;
constexpr double kAlpha = 0.05;
constexpr double kTolerance = 1e-4;  // of the checker's bisection

double olympic_mean(std::span<const double> values, int trimmed) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const auto kept = static_cast<ptrdiff_t>(sorted.size()) - 2 * trimmed;
  if (kept < 1) {
    throw std::domain_error("an olympic mean needs at least " + std::to_string(2 * trimmed + 1) +
                            " values");
  }
  return std::accumulate(sorted.begin() + trimmed, sorted.end() - trimmed, 0.0) /
         static_cast<double>(kept);
}

double population_sd(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / n);
}

// Smallest submission mean that a pooled one-sided t test at 5 % does not call faster than the
// reference, the submission's sd taken as equal.
double least_mean(double mean, double sd, int reference_n, const ConvergenceRules& rules) {
  if (sd == 0) return mean;
  const int own_n = rules.submission_runs - 2;
  const double se = sd * std::sqrt(1.0 / reference_n + 1.0 / own_n);
  const double df = reference_n + own_n - 2;
  double low = 0;
  double high = mean;
  while (high - low > kTolerance) {
    const double middle = (low + high) / 2;
    const double p = student_two_sided_p((mean - middle) / se, df) / 2;
    (p > kAlpha ? high : low) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

ConvergencePoint convergence_point(double batch, std::span<const double> epochs,
                                   const ConvergenceRules& rules) {
  ConvergencePoint out;
  out.batch = batch;
  out.mean = olympic_mean(epochs, rules.trimmed);
  out.sd = population_sd(epochs);
  out.least_mean =
      least_mean(out.mean, out.sd, static_cast<int>(epochs.size()) - 2 * rules.trimmed, rules);
  return out;
}

ConvergencePoint interpolated_point(double batch, const ConvergencePoint& low,
                                    const ConvergencePoint& high, const ConvergenceRules& rules) {
  const double share = (batch - low.batch) / (high.batch - low.batch);
  ConvergencePoint out;
  out.batch = batch;
  out.mean = std::lerp(low.mean, high.mean, share);
  out.sd = std::lerp(low.sd, high.sd, share);
  out.least_mean = least_mean(out.mean, out.sd, 2 * rules.submission_runs, rules);
  return out;
}

std::vector<ConvergencePoint> pruned(std::vector<ConvergencePoint> points,
                                     const ConvergenceRules& rules) {
  if (points.empty()) return points;
  std::sort(points.begin(), points.end(),
            [](const ConvergencePoint& a, const ConvergencePoint& b) { return a.batch < b.batch; });
  const auto fastest = std::min_element(points.begin(), points.end(),
                                        [](const ConvergencePoint& a, const ConvergencePoint& b) {
                                          return a.least_mean < b.least_mean;
                                        });
  points.erase(points.begin(), fastest);
  for (size_t i = 1; i + 1 < points.size();) {
    const ConvergencePoint line =
        interpolated_point(points[i].batch, points[i - 1], points[i + 1], rules);
    if (points[i].least_mean > line.least_mean) {
      points.erase(points.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return points;
}

ConvergenceCheck check_convergence(const std::vector<ConvergencePoint>& reference, double batch,
                                   std::span<const double> epochs, const ConvergenceRules& rules) {
  ConvergenceCheck out;
  const auto failed =
      std::count_if(epochs.begin(), epochs.end(), [](double e) { return e >= kNeverConverged; });
  if (failed > rules.trimmed) {
    out.text = std::to_string(failed) + " runs did not converge; " + std::to_string(rules.trimmed) +
               " may";
    return out;
  }
  out.mean = olympic_mean(epochs, rules.trimmed);
  const ConvergencePoint* below = nullptr;
  const ConvergencePoint* above = nullptr;
  for (const ConvergencePoint& point : reference) {
    if (point.batch <= batch && (below == nullptr || point.batch > below->batch)) below = &point;
    if (point.batch >= batch && (above == nullptr || point.batch < above->batch)) above = &point;
  }
  if (above == nullptr) {
    out.text = "no reference at this batch size or a larger one";
    return out;
  }
  if (below == nullptr) {
    out.point = *above;
    out.text = "compared with the smallest batch size of the reference";
  } else if (below == above) {
    out.point = *below;
    out.text = "reference of this batch size";
  } else {
    out.point = interpolated_point(batch, *below, *above, rules);
    out.text = "reference interpolated between two batch sizes";
  }
  out.passed = out.mean >= out.point->least_mean;
  out.score_factor = std::max(1.0, out.point->mean / out.mean);
  return out;
}

}  // namespace reciperun
