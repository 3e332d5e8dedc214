#include "tools/recipe_run/statistics/summary.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace reciperun {

Summary summarise(std::span<const double> values) {
  if (values.empty()) throw std::domain_error("no values to summarise");
  Summary out;
  out.n = static_cast<int>(values.size());
  double sum = 0;
  for (double v : values) {
    if (!std::isfinite(v)) throw std::domain_error("a value is not finite");
    sum += v;
  }
  out.mean = sum / out.n;
  if (out.n < 2) return out;
  double squares = 0;
  for (double v : values) squares += (v - out.mean) * (v - out.mean);
  out.sd = std::sqrt(squares / (out.n - 1));
  return out;
}

double median(std::span<const double> values) {
  if (values.empty()) throw std::domain_error("no values to take the median of");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double sample_sd_from_population(double sd, int n) {
  if (n < 2) throw std::domain_error("a standard deviation needs two runs");
  return sd * std::sqrt(static_cast<double>(n) / (n - 1));
}

double rounding_variance(double step) { return step * step / 12; }

double undo_truncation(double printed, double step) { return printed + step / 2; }

}  // namespace reciperun
