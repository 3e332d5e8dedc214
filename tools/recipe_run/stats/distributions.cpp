#include "tools/recipe_run/stats/distributions.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace reciperun {

namespace bm = boost::math;

double normal_quantile(double p) { return bm::quantile(bm::normal(), p); }

double student_quantile(double p, double df) { return bm::quantile(bm::students_t(df), p); }

double student_cdf(double t, double df) { return bm::cdf(bm::students_t(df), t); }

double student_two_sided_p(double t, double df) {
  return 2 * bm::cdf(bm::complement(bm::students_t(df), std::abs(t)));
}

double noncentral_t_cdf(double t, double df, double noncentrality) {
  return bm::cdf(bm::non_central_t(df, noncentrality), t);
}

double fisher_quantile(double p, double df1, double df2) {
  return bm::quantile(bm::fisher_f(df1, df2), p);
}

double fisher_two_sided_p(double f, double df1, double df2) {
  const bm::fisher_f distribution(df1, df2);
  return 2 * std::min(bm::cdf(distribution, f), bm::cdf(bm::complement(distribution, f)));
}

double chi_squared_quantile(double p, double df) { return bm::quantile(bm::chi_squared(df), p); }

double binomial_cdf(int k, int n, double p) { return k < 0 ? 0.0 : bm::cdf(bm::binomial(n, p), k); }

int binomial_quantile(double q, int n, double p) {
  // Start from the normal approximation and walk: exact, and independent of the library's rounding
  // policy.
  int k = static_cast<int>(std::lround(n * p + normal_quantile(q) * std::sqrt(n * p * (1 - p))));
  k = std::max(0, std::min(n, k));
  while (k > 0 && binomial_cdf(k - 1, n, p) >= q) --k;
  while (k < n && binomial_cdf(k, n, p) < q) ++k;
  return k;
}

}  // namespace reciperun
