// Quantiles and probabilities of the distributions the verdicts need. All arguments are checked:
// NaN, infinite or out-of-range values raise std::domain_error, they never give a number.
#pragma once

namespace reciperun {

double normal_quantile(double p);

// Student's t with `df` > 0 degrees of freedom (need not be whole).
double student_quantile(double p, double df);
double student_cdf(double t, double df);
double student_two_sided_p(double t, double df);

// P(T <= t) for the noncentral t distribution.
double noncentral_t_cdf(double t, double df, double noncentrality);

double fisher_quantile(double p, double df1, double df2);
// Two-sided p of a variance ratio `f`.
double fisher_two_sided_p(double f, double df1, double df2);
double chi_squared_quantile(double p, double df);

// P(Bin(n, p) <= k); 0 for k < 0.
double binomial_cdf(int k, int n, double p);
// Smallest k with P(Bin(n, p) <= k) >= q.
int binomial_quantile(double q, int n, double p);

}  // namespace reciperun
