// The largest and smallest of several runs.
#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/means.h"

namespace reciperun {
namespace {

// Per dimension; the integrands are smooth, so the trapezium rule is exact to 1e-6.
constexpr int kPoints = 80;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// Distribution of the pivot (max of k new runs - mean of n) / sd of n, integrated over the mean and
// the sd. Deterministic, where a simulation would wander in the second digit.
class ExtremePivot {
 public:
  ExtremePivot(int k, int n) : k_(k) {
    const boost::math::chi_squared spread(n - 1);
    const double low = std::log(boost::math::quantile(spread, 1e-10));
    const double high = std::log(boost::math::quantile(boost::math::complement(spread, 1e-10)));
    for (int i = 0; i <= kPoints; ++i) {
      const double z = 14.0 * i / kPoints - 7;
      means_.push_back({z / std::sqrt(static_cast<double>(n)), std::exp(-z * z / 2)});
      const double chi_squared = std::exp(low + (high - low) * i / kPoints);
      sds_.push_back(
          {std::sqrt(chi_squared / (n - 1)), boost::math::pdf(spread, chi_squared) * chi_squared});
    }
    normalise(means_);
    normalise(sds_);
  }

  double cdf(double q) const {
    double sum = 0;
    for (const Node& mean : means_) {
      for (const Node& sd : sds_) {
        sum += mean.weight * sd.weight * std::pow(normal_cdf(mean.at + q * sd.at), k_);
      }
    }
    return sum;
  }

  double quantile(double p) const {
    double low = -60;
    double high = 60;
    while (high - low > 1e-5) {
      const double middle = (low + high) / 2;
      (cdf(middle) < p ? low : high) = middle;
    }
    return (low + high) / 2;
  }

 private:
  struct Node {
    double at;
    double weight;
  };

  static void normalise(std::vector<Node>& nodes) {
    double total = 0;
    for (const Node& node : nodes) total += node.weight;
    for (Node& node : nodes) node.weight /= total;
  }

  int k_;
  std::vector<Node> means_;
  std::vector<Node> sds_;
};

void require_two_runs(const Summary& published, int k) {
  if (published.n < 2 || k < 1) {
    throw std::domain_error("an extreme needs two published runs and one of ours");
  }
}

}  // namespace

Interval extreme_interval(const Summary& published, int k, bool maximum, double level) {
  require_two_runs(published, k);
  const ExtremePivot pivot(k, published.n);
  const double low = pivot.quantile((1 - level) / 2) * published.sd;
  const double high = pivot.quantile((1 + level) / 2) * published.sd;
  return maximum ? Interval{published.mean + low, published.mean + high}
                 : Interval{published.mean - high, published.mean - low};
}

double extreme_two_sided_p(const Summary& published, int k, bool maximum, double value) {
  require_two_runs(published, k);
  const double off = maximum ? value - published.mean : published.mean - value;
  if (published.sd == 0) return off == 0 ? 1 : 0;
  const double below = ExtremePivot(k, published.n).cdf(off / published.sd);
  return 2 * std::min(below, 1 - below);
}

}  // namespace reciperun
