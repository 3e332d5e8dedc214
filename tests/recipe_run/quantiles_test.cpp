// The definitions of a published "latency 99 %", on lists whose answers can be done by hand.
#include "tools/recipe_run/stats/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace reciperun {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

double estimate(const std::vector<double>& values, double p, Estimator estimator,
                QuantileOptions options = {}) {
  return estimate_quantile(values, {p, estimator}, options).value_or(NAN);
}

TEST(Quantile, DefinitionsOnOneTo201) {
  const std::vector<double> values = one_to(201);
  EXPECT_EQ(estimate(values, 0.99, Estimator::kNearestRank), 199);
  EXPECT_DOUBLE_EQ(estimate(values, 0.99, Estimator::kMeanOfLowest), 99.5);
  EXPECT_DOUBLE_EQ(estimate(values, 0.99, Estimator::kMeanOfLowest, {2, 2}), 99);  // 197 of 199
  const double s = std::sqrt((201.0 * 201 - 1) / 12);
  EXPECT_NEAR(estimate(values, 0.99, Estimator::kMeanUpperCi), 101 + 2.576 * s / std::sqrt(201.0),
              1e-9);
  // In time order the halves are 1..100 and 101..201: type 7 gives 99.01 and 200.
  EXPECT_NEAR(estimate(values, 0.99, Estimator::kMeanOfSegmentType7), (99.01 + 200) / 2, 1e-9);
  EXPECT_DOUBLE_EQ(estimate(values, 0.955, Estimator::kMeanOfSegmentType7, {0, 1}), 192);
}

TEST(Quantile, ExactProductsDoNotFallToTheNextRank) {
  EXPECT_EQ(estimate(one_to(100), 0.99, Estimator::kNearestRank), 99);
  // 0.29 * 100 = 28.999999999999996
  EXPECT_EQ(estimate(one_to(100), 0.29, Estimator::kMeanOfLowest), 15);
}

TEST(Quantile, OneOutlierExplainsThePublishedUnetRow) {
  std::vector<double> ms(200, 20.82);
  ms.push_back(671);
  const double mean = std::accumulate(ms.begin(), ms.end(), 0.0) / 201;
  EXPECT_NEAR(mean, 24.05, 0.01);
  double rates = 0;
  for (double t : ms) rates += 8000 / t;
  EXPECT_NEAR(rates / 201, 382.4, 0.06);
  EXPECT_NEAR(estimate(ms, 0.90, Estimator::kMeanUpperCi), 29.36, 0.02);
  EXPECT_NEAR(estimate(ms, 0.95, Estimator::kMeanUpperCi), 30.38, 0.02);
  EXPECT_NEAR(estimate(ms, 0.99, Estimator::kMeanUpperCi), 32.37, 0.02);
  EXPECT_EQ(estimate(ms, 0.99, Estimator::kNearestRank),
            20.82);  // the true p99 does not see it at all
}

// The four steps worked out for U-Net's inference: batch 8 in 10, 11, 12 and 30 ms.
TEST(Quantile, BothMeaningsOfThePublishedPercentages) {
  const std::vector<double> ms{10, 11, 12, 30};
  const auto upper_end = [&](double p) { return estimate(ms, p, Estimator::kMeanUpperCi); };
  EXPECT_NEAR(upper_end(0.90), 22.54185, 1e-5);
  EXPECT_NEAR(upper_end(0.95), 23.84242, 1e-5);
  EXPECT_NEAR(upper_end(0.99), 26.38575, 1e-5);
  const auto percentile = [&](double p) {
    return estimate(ms, p, Estimator::kMeanOfSegmentType7, {0, 1});
  };
  EXPECT_NEAR(percentile(0.90), 24.6, 1e-9);
  EXPECT_NEAR(percentile(0.95), 27.3, 1e-9);
  EXPECT_NEAR(percentile(0.99), 29.46, 1e-9);
}

// The example worked out for EfficientDet's inference, whose percentages are all below the mean.
TEST(Quantile, MeansOfTheLowestOfEfficientDet) {
  std::vector<double> ms(100);
  for (size_t i = 0; i < ms.size(); ++i) ms[i] = 10 + 0.1 * static_cast<double>(i % 10);
  ms[50] = 30;
  EXPECT_NEAR(std::accumulate(ms.begin(), ms.end(), 0.0) / 100, 10.65, 1e-9);
  const auto of_lowest = [&](double p) { return estimate(ms, p, Estimator::kMeanOfLowest); };
  EXPECT_NEAR(of_lowest(0.90), 10.41, 1e-9);
  EXPECT_NEAR(of_lowest(0.95), 10.435789, 1e-6);
  EXPECT_NEAR(of_lowest(0.99), 10.454545, 1e-6);
}

// The example worked out for ELECTRA's inference: of 1 to 10 the two slowest are left out first.
TEST(Quantile, MeansOfTheLowestOfElectra) {
  for (const double p : {0.90, 0.95, 0.99})
    EXPECT_EQ(estimate(one_to(10), p, Estimator::kMeanOfLowest, {2, 2}), 4) << p;
}

TEST(Quantile, BadArguments) {
  EXPECT_THROW(estimate(one_to(9), 1.0, Estimator::kNearestRank), std::domain_error);
  EXPECT_TRUE(std::isnan(estimate({}, 0.5, Estimator::kNearestRank)));
}

TEST(QuantileRanks, PublishedTable) {
  const auto expect_ranks = [](int n, double p, int lower, int upper) {
    const auto ranks = quantile_ranks(n, p);
    ASSERT_TRUE(ranks.has_value());
    EXPECT_EQ(ranks->lower, lower) << n << " " << p;
    EXPECT_EQ(ranks->upper, upper) << n << " " << p;
  };
  expect_ranks(1000, 0.50, 469, 532);
  expect_ranks(1000, 0.90, 881, 919);
  expect_ranks(1000, 0.95, 936, 964);
  expect_ranks(1000, 0.99, 983, 997);
  expect_ranks(2000, 0.99, 1971, 1989);
  EXPECT_EQ(minimum_samples(0.90), 36);
  EXPECT_EQ(minimum_samples(0.95), 72);
  EXPECT_EQ(minimum_samples(0.99), 368);
  EXPECT_FALSE(quantile_ranks(367, 0.99).has_value());
}

// Deterministic noise in [0, 1).
double noise(int i) { return std::fmod(std::abs(std::sin(i * 12.9898) * 43758.5453), 1.0); }

TEST(EffectiveSamples, IndependentAndCorrelated) {
  std::vector<double> independent;
  std::vector<double> correlated;
  double state = 0;
  for (int i = 0; i < 2000; ++i) {
    independent.push_back(noise(i));
    state = 0.9 * state + noise(i) - 0.5;
    correlated.push_back(state);
  }
  EXPECT_GT(effective_samples(independent), 1500);
  // An AR(1) with coefficient 0.9 carries (1 - 0.9) / (1 + 0.9) of its samples.
  EXPECT_NEAR(effective_samples(correlated), 2000 * 0.1 / 1.9, 60);
  EXPECT_EQ(effective_samples(std::vector<double>(10, 3.0)), 10);
  EXPECT_FALSE(quantile_interval(independent, 0.99)->bootstrapped);
  const auto blocks = quantile_interval(correlated, 0.5);
  EXPECT_TRUE(blocks->bootstrapped);
  EXPECT_LT(blocks->interval.lower, blocks->interval.upper);
  EXPECT_FALSE(quantile_interval(one_to(100), 0.99).has_value());
}

}  // namespace
}  // namespace reciperun
