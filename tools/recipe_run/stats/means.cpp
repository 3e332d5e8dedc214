// Formulas of the tests of means, predictions and standard deviations.
#include "tools/recipe_run/stats/means.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tools/recipe_run/stats/distributions.h"

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

namespace {

void require_runs(const Summary& s, int least) {
  if (s.n < least || !std::isfinite(s.mean) || !(s.sd >= 0) || !std::isfinite(s.sd)) {
    throw std::domain_error("needs at least " + std::to_string(least) + " finite runs");
  }
}

}  // namespace

MeanComparison mean_with_se(double delta, double se, double df) {
  MeanComparison out;
  out.delta = delta;
  out.se = se;
  out.df = df;
  if (se == 0) {  // no spread at all: the difference is exact
    out.interval95 = {delta, delta};
    out.p = delta == 0 ? 1 : 0;
    return out;
  }
  const double half95 = student_quantile(0.975, df) * se;
  out.interval95 = {delta - half95, delta + half95};
  out.p = student_two_sided_p(delta / se, df);
  return out;
}

MeanComparison welch(const Summary& published, const Summary& ours) {
  require_runs(published, 2);
  require_runs(ours, 2);
  const double a = published.sd * published.sd / published.n + published.rounding_variance;
  const double b = ours.sd * ours.sd / ours.n;
  const double total = a + b;
  const double df =
      total == 0 ? 1 : total * total / (a * a / (published.n - 1) + b * b / (ours.n - 1));
  return mean_with_se(ours.mean - published.mean, std::sqrt(total), df);
}

MeanComparison with_borrowed_sd(const Summary& published, const Summary& lender,
                                const Summary& ours) {
  require_runs(lender, 2);
  require_runs(published, 1);
  require_runs(ours, 1);
  double df = lender.n - 1;
  double variance = lender.sd * lender.sd;
  if (ours.n >= 2) {
    df = lender.n + ours.n - 2;
    variance = ((lender.n - 1) * variance + (ours.n - 1) * ours.sd * ours.sd) / df;
  }
  const double se =
      std::sqrt(variance * (1.0 / published.n + 1.0 / ours.n) + published.rounding_variance);
  return mean_with_se(ours.mean - published.mean, se, df);
}

MeanComparison with_own_sd(const Summary& published, const Summary& ours) {
  require_runs(published, 1);
  require_runs(ours, 2);
  const double variance = ours.sd * ours.sd * (1.0 / published.n + 1.0 / ours.n);
  return mean_with_se(ours.mean - published.mean, std::sqrt(variance + published.rounding_variance),
                      ours.n - 1);
}

Interval MeanComparison::equivalence_interval(double level) const {
  const double half = se == 0 ? 0 : student_quantile(1 - level, df) * se;
  return {delta - half, delta + half};
}

double MeanComparison::p_at_least(double value) const {
  if (se > 0) return student_cdf((delta - value) / se, df);
  return delta < value ? 0 : delta == value ? 0.5 : 1;
}

Prediction predict(const Summary& published, int k) {
  return predict_with_borrowed_sd(published, published, k);
}

Prediction predict_with_borrowed_sd(const Summary& published, const Summary& lender, int k) {
  require_runs(lender, 2);
  require_runs(published, 1);
  if (k < 1) throw std::domain_error("prediction of no runs");
  const double variance = lender.sd * lender.sd * (1.0 / k + 1.0 / published.n);
  return {published.mean, std::sqrt(variance + published.rounding_variance), lender.n - 1.0};
}

Interval Prediction::interval(double level) const {
  if (!(level > 0 && level < 1)) throw std::domain_error("prediction at no level");
  const double half = se == 0 ? 0 : student_quantile(1 - (1 - level) / 2, df) * se;
  return {mean - half, mean + half};
}

double Prediction::two_sided_p(double value) const {
  if (se == 0) return value == mean ? 1 : 0;
  return student_two_sided_p((value - mean) / se, df);
}

double false_comfort(const Prediction& prediction, double drop) {
  if (prediction.se == 0) return drop == 0 ? 1 : 0;
  const double limit = student_quantile(0.975, prediction.df);
  const double shift = drop / prediction.se;
  return noncentral_t_cdf(limit, prediction.df, shift) -
         noncentral_t_cdf(-limit, prediction.df, shift);
}

SdRatio sd_ratio(const Summary& published, const Summary& ours) {
  require_runs(published, 2);
  require_runs(ours, 2);
  if (published.sd == 0 || ours.sd == 0) throw std::domain_error("a standard deviation is zero");
  SdRatio out;
  out.ratio = ours.sd / published.sd;
  const Interval usual = unremarkable_sd_ratio(published.n, ours.n);
  out.interval95 = {out.ratio / usual.upper, out.ratio / usual.lower};
  return out;
}

double sd_upper_factor(int n) { return std::sqrt((n - 1) / chi_squared_quantile(0.2, n - 1)); }

Interval unremarkable_sd_ratio(int published_n, int own_n) {
  return {std::sqrt(fisher_quantile(0.025, own_n - 1, published_n - 1)),
          std::sqrt(fisher_quantile(0.975, own_n - 1, published_n - 1))};
}

}  // namespace reciperun
