#include "tools/recipe_run/statistics/power.h"

#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <stdexcept>

#include "tools/recipe_run/statistics/distributions.h"

namespace reciperun {
namespace {

double standard_error(const Summary& published, int k) {
  return published.sd * std::sqrt(1.0 / published.n + 1.0 / k);
}

void check(const Summary& published, int k) {
  if (published.n < 2 || !(published.sd > 0) || k < 1) {
    throw std::domain_error("power needs a published sd of at least two runs");
  }
}

}  // namespace

double power(const Summary& published, int k, double drop) {
  check(published, k);
  const double df = published.n + k - 2;
  return 1 - noncentral_t_cdf(student_quantile(0.95, df), df, drop / standard_error(published, k));
}

int runs_for_90_percent(const Summary& published, double drop, int limit) {
  for (int k = 1; k <= limit; ++k) {
    if (power(published, k, drop) >= 0.9) return k;
  }
  return 0;
}

double sd_upper_factor(int n) { return std::sqrt((n - 1) / chi_squared_quantile(0.2, n - 1)); }

double equivalence_power(const Summary& published, int k, double margin) {
  check(published, k);
  // Given the pooled sd, delta is normal: average the chance of |delta| < margin - t * se over the
  // sd's distribution.
  const double df = published.n + k - 2;
  const double t = student_quantile(0.95, df);
  const double se = standard_error(published, k);
  const boost::math::chi_squared spread(df);
  constexpr int kPoints = 2000;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double ratio = std::sqrt(boost::math::quantile(spread, (i + 0.5) / kPoints) / df);
    const double room = margin - t * se * ratio;
    if (room > 0) sum += std::erf(room / (se * std::sqrt(2.0)));
  }
  return sum / kPoints;
}

}  // namespace reciperun
