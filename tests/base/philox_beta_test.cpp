#include "sdk/base/philox_beta.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

// Moments of Beta(a, a): mean 1/2, variance 1 / (4 (2a + 1)), fourth central moment
// 3 / (16 (2a + 1) (2a + 3)).
TEST(PhiloxBeta, HasTheMomentsOfBeta) {
  constexpr int kDraws = 200000;
  for (const double alpha : {0.2, 0.5, 1.0, 4.0}) {
    double mean = 0, second = 0, fourth = 0;
    for (int i = 0; i < kDraws; ++i) {
      PhiloxStream random(11, 12, static_cast<uint64_t>(i));
      const double v = philox_beta(random, alpha);
      ASSERT_GE(v, 0);
      ASSERT_LE(v, 1);
      mean += v / kDraws;
      second += std::pow(v - 0.5, 2) / kDraws;
      fourth += std::pow(v - 0.5, 4) / kDraws;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    const double kurtosis = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3));
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(second, variance, 4 * std::sqrt((kurtosis - variance * variance) / kDraws))
        << alpha;
    EXPECT_NEAR(fourth, kurtosis, 4 * std::sqrt(kurtosis / 16 / kDraws)) << alpha;
  }
}

// P(v < 1/10) of Beta(1/5, 1/5) is 0.33669 (SciPy: scipy.stats.beta.cdf(0.1, 0.2, 0.2)).
TEST(PhiloxBeta, HasTheTailsOfBeta) {
  constexpr int kDraws = 200000;
  double below = 0;
  for (int i = 0; i < kDraws; ++i) {
    PhiloxStream random(5, 6, static_cast<uint64_t>(i));
    below += philox_beta(random, 0.2) < 0.1;
  }
  EXPECT_NEAR(below / kDraws, 0.33669, 4 * std::sqrt(0.34 * 0.66 / kDraws));
}

}  // namespace
}  // namespace assay
