// MLPerf's convergence-point statistic against values of its own checker.
#include "tools/recipe_run/statistics/convergence.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reciperun {
namespace {

using Values = std::vector<double>;

// ResNet at batch 4096, ten reference runs; five runs make a submission.
const Values kEpochs4096 = {39, 42, 40, 41, 39, 40, 41, 39, 40, 39};
const ConvergenceRules kResnet{5, 1};

Values shifted(const Values& values, double by) {
  Values out;
  for (double v : values) out.push_back(v + by);
  return out;
}

TEST(Convergence, WorkedExample) {
  const ConvergencePoint point = convergence_point(4096, kEpochs4096, kResnet);
  EXPECT_NEAR(point.mean, 39.875, 1e-9);
  EXPECT_NEAR(point.sd, 1.000, 1e-9);
  EXPECT_NEAR(point.least_mean, 38.634, 0.0005);
  EXPECT_NEAR(point.max_speedup(), 1.032, 0.0005);
}

TEST(Convergence, InterpolatesInTheBatchSize) {
  const ConvergencePoint low = convergence_point(4096, kEpochs4096, kResnet);
  const ConvergencePoint high = convergence_point(8192, shifted(kEpochs4096, 2), kResnet);
  const ConvergencePoint point = interpolated_point(6144, low, high, kResnet);
  EXPECT_NEAR(point.mean, 40.875, 1e-9);
  EXPECT_NEAR(point.least_mean, 39.693, 0.0005);
}

TEST(Convergence, PassesUpToTheLimitAndScalesTheScore) {
  const std::vector<ConvergencePoint> reference = {
      convergence_point(4096, kEpochs4096, kResnet),
      convergence_point(8192, shifted(kEpochs4096, 2), kResnet)};
  const auto check = [&](double batch, const Values& epochs) {
    return check_convergence(reference, batch, epochs, kResnet);
  };
  const ConvergenceCheck slower = check(4096, {41, 41, 41, 42, 41});
  EXPECT_TRUE(slower.passed);
  EXPECT_EQ(slower.score_factor, 1);
  const ConvergenceCheck faster = check(4096, {39, 39, 39, 39, 39});
  EXPECT_TRUE(faster.passed);
  EXPECT_NEAR(faster.score_factor, 39.875 / 39, 1e-9);
  EXPECT_FALSE(check(4096, {38, 38, 38, 39, 38}).passed);
  EXPECT_TRUE(check(6144, {39.7, 39.7, 39.7, 39.7, 39.7}).passed);
  EXPECT_FALSE(check(6144, {39.6, 39.6, 39.6, 39.6, 39.6}).passed);
  EXPECT_TRUE(check(2048, {39, 39, 39, 39, 39}).passed) << "compared with the smallest";
  EXPECT_FALSE(check(16384, {60, 60, 60, 60, 60}).passed) << "needs a reference of its own";
  EXPECT_TRUE(check(4096, {40, 40, 40, 40, 1e9}).passed) << "one run may fail to converge";
  EXPECT_FALSE(check(4096, {40, 40, 40, 1e9, 1e9}).passed);
}

TEST(Convergence, PrunesSlowPoints) {
  const auto point = [](double batch, double by) {
    return convergence_point(batch, shifted(kEpochs4096, by), kResnet);
  };
  const auto batches = [](const std::vector<ConvergencePoint>& points) {
    Values out;
    for (const ConvergencePoint& p : points) out.push_back(p.batch);
    return out;
  };
  // 2048 lies below the fastest; 8192 above the line from 4096 to 16384.
  EXPECT_EQ(
      batches(pruned({point(2048, 1), point(4096, 0), point(8192, 3), point(16384, 4)}, kResnet)),
      (Values{4096, 16384}));
  EXPECT_EQ(batches(pruned({point(16384, 6), point(8192, 1), point(4096, 0)}, kResnet)),
            (Values{4096, 8192, 16384}));
  EXPECT_TRUE(pruned({}, kResnet).empty());
}

TEST(Convergence, EdgeCases) {
  EXPECT_THROW(convergence_point(1, Values{1, 2}, kResnet), std::domain_error);
  EXPECT_EQ(convergence_point(1, Values{5, 5, 5, 5}, kResnet).least_mean, 5) << "no spread";
}

}  // namespace
}  // namespace reciperun
