// Every worked number of the statistics the verdicts rest on, to the digits printed in their
// sources: ResNet-50 v1.5, EfficientDet-D0, ELECTRA-base and DLPerf's published tables and logs.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/looks.h"
#include "tools/recipe_run/stats/means.h"
#include "tools/recipe_run/stats/repeats.h"

namespace reciperun {
namespace {

using Values = std::vector<double>;

// "Equal to the printed digits": within half a unit of the last one.
void expect_printed(double value, double printed, int decimals, const char* what = "") {
  EXPECT_NEAR(value, printed, 0.5000001 * std::pow(10.0, -decimals)) << what;
}

const Summary kResnet50ep{76.308, 0.073, 8, 0};
const Summary kResnet90ep{77.150, 0.098, 8, 0};
const Summary kResnet90epFp32{77.313, 0.085, 8, 0};
const Summary kResnet250ep{78.460, 0.078, 8, 0};
const Summary kEfficientDet = summarise(Values{34.38, 34.56, 34.30, 34.34, 34.40});
const Summary kElectraEm = summarise(Values{86.99, 86.81, 86.95, 87.10, 87.26});
const Summary kElectraF1 = summarise(Values{92.7, 92.66, 92.65, 92.61, 92.97});
const Summary kElectra2Em = summarise(Values{83.00, 82.84, 83.11, 82.70, 82.94});
const Summary kElectra2F1 = summarise(Values{85.63, 85.48, 85.69, 85.31, 85.57});
const Summary kElectraLoss = summarise(Values{8.72, 8.69, 8.71, 8.7, 8.68});

TEST(Summary, MatchesThePublishedLists) {
  expect_printed(kEfficientDet.mean, 34.396, 3);
  expect_printed(kEfficientDet.sd, 0.0994, 4);
  expect_printed(kElectraEm.mean, 87.022, 3);
  expect_printed(kElectraEm.sd, 0.169, 3);
  expect_printed(kElectraF1.mean, 92.718, 3);
  expect_printed(kElectraF1.sd, 0.14, 2);
  EXPECT_THROW(summarise(Values{}), std::domain_error);
  EXPECT_THROW(summarise(Values{1, NAN}), std::domain_error);
  EXPECT_EQ(summarise(Values{3}).sd, 0);
}

TEST(Summary, PopulationSpreadAndRounding) {
  EXPECT_DOUBLE_EQ(sample_sd_from_population(2, 5), 2 * std::sqrt(5.0 / 4));
  EXPECT_DOUBLE_EQ(rounding_variance(0.01), 0.0001 / 12);
  EXPECT_DOUBLE_EQ(undo_truncation(3.34, 0.01), 3.345);
}

TEST(Welch, EfficientDet) {
  const Summary own = summarise(Values{34.31, 34.47, 34.22});
  expect_printed(own.mean, 34.333, 3);
  expect_printed(own.sd, 0.127, 3);
  const MeanComparison c = welch(kEfficientDet, own);
  expect_printed(c.delta, -0.063, 3);
  expect_printed(c.se, 0.0856, 4);
  expect_printed(c.df, 3.5, 1);
  expect_printed(c.equivalence_interval(0.05).lower, -0.253, 3);
  expect_printed(c.equivalence_interval(0.05).upper, 0.127, 3);
}

TEST(Welch, Resnet90Epochs) {
  const Summary own = summarise(Values{77.121, 77.206, 77.058, 77.177});
  expect_printed(own.mean, 77.141, 3);
  expect_printed(own.sd, 0.065, 3);
  const MeanComparison c = welch(kResnet90ep, own);
  expect_printed(c.equivalence_interval(0.05).lower, -0.097, 3);
  expect_printed(c.equivalence_interval(0.05).upper, 0.078, 3);
}

TEST(Welch, ElectraExactMatch) {
  const MeanComparison close = welch(kElectraEm, summarise(Values{86.80, 86.95, 86.71}));
  expect_printed(close.delta, -0.202, 3);
  expect_printed(close.se, 0.103, 3);
  expect_printed(close.df, 5.6, 1);
  expect_printed(close.equivalence_interval(0.05).lower, -0.405, 3);
  expect_printed(close.equivalence_interval(0.05).upper, 0.001, 3);
  const MeanComparison far =
      welch(kElectraEm, summarise(Values{86.35, 86.52, 86.41, 86.60, 86.47}));
  expect_printed(far.delta, -0.552, 3);
  expect_printed(far.p, 0.0006, 4);
}

TEST(Welch, ASignificantDifferenceCanStillBeEquivalent) {
  const MeanComparison c = welch(kResnet90epFp32, kResnet90ep);
  expect_printed(c.delta, -0.163, 3);
  expect_printed(c.p, 0.003, 3);
  expect_printed(c.equivalence_interval(0.05).lower, -0.244, 3);
  expect_printed(c.equivalence_interval(0.05).upper, -0.082, 3);
  EXPECT_TRUE(c.equivalence_interval(0.05).inside(-0.30, 0.30));
}

TEST(Welch, EdgeCases) {
  EXPECT_THROW(welch(kResnet90ep, Summary{77, 0, 1, 0}), std::domain_error);
  EXPECT_THROW(welch(kResnet90ep, Summary{NAN, 0.1, 3, 0}), std::domain_error);
  const MeanComparison equal = welch({1, 0, 3, 0}, {1, 0, 3, 0});
  EXPECT_EQ(equal.p, 1);
  EXPECT_TRUE(equal.equivalence_interval(0.05).inside(-0.1, 0.1));
  EXPECT_EQ(welch({1, 0, 3, 0}, {2, 0, 3, 0}).p, 0);
  // Rounding of the printed mean widens the interval.
  EXPECT_GT(welch({77.15, 0.098, 8, rounding_variance(0.1)}, kResnet50ep).se,
            welch(kResnet90ep, kResnet50ep).se);
}

TEST(Prediction, HalfWidthsOfThePublishedRows) {
  struct Row {
    Summary published;
    std::array<double, 4> half;  // 1, 3, 5, 8 runs
  };
  const std::vector<Row> rows = {{kResnet50ep, {0.183, 0.117, 0.098, 0.086}},
                                 {kResnet90ep, {0.246, 0.157, 0.132, 0.116}},
                                 {kResnet90epFp32, {0.213, 0.136, 0.115, 0.100}},
                                 {kResnet250ep, {0.196, 0.125, 0.105, 0.092}},
                                 {kEfficientDet, {0.302, 0.202, 0.175, 0.157}},
                                 {kElectraEm, {0.513, 0.342, 0.296, 0.267}},
                                 {kElectraF1, {0.439, 0.293, 0.254, 0.229}},
                                 {kElectra2Em, {0.475, 0.317, 0.274, 0.247}},
                                 {kElectra2F1, {0.451, 0.301, 0.260, 0.235}},
                                 {kElectraLoss, {0.048, 0.032, 0.028, 0.025}}};
  constexpr std::array<int, 4> kRuns = {1, 3, 5, 8};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kRuns.size(); ++i) {
      const Interval interval = predict(row.published, kRuns[i]).interval(0.95);
      // The sources print means and sds with three digits: one unit of the last digit is theirs.
      EXPECT_NEAR((interval.upper - interval.lower) / 2, row.half[i], 0.0012)
          << row.published.mean << " " << kRuns[i];
    }
  }
}

TEST(Prediction, OfTheSeedsThemselves) {
  const Interval ap = predict(kEfficientDet, 1).interval(0.95);
  for (double inside : {34.53, 34.27, 34.42, 34.45, 34.14})
    EXPECT_TRUE(ap.contains(inside)) << inside;
  EXPECT_FALSE(ap.contains(34.02));
  const double scale = kEfficientDet.sd * std::sqrt(1 + 1.0 / 5);
  expect_printed((34.02 - kEfficientDet.mean) / scale, -3.45, 2);
  expect_printed(student_quantile(0.975, 4), 2.78, 2);
  expect_printed((90.58 - kElectraF1.mean) / (kElectraF1.sd * std::sqrt(1.2)), -13.5, 1);
  const Interval top1 = predict(kResnet90ep, 1).interval(0.95);
  for (double inside : {77.342, 77.196, 77.185}) EXPECT_TRUE(top1.contains(inside)) << inside;
}

TEST(Prediction, RoundingOfThePrintedMeanWidensIt) {
  const Summary rounded{34.4, 0.0994, 5, rounding_variance(0.1)};
  const Interval interval = predict(rounded, 1).interval(0.95);
  const double se = std::sqrt(0.0994 * 0.0994 * 1.2 + 0.01 / 12);
  EXPECT_NEAR(interval.upper - 34.4, student_quantile(0.975, 4) * se, 1e-12);
}

// How often one run that is truly worse by 0.3 passes: the rows of the table of operating
// characteristics, and the introduction's 76 %.
TEST(Prediction, FalseComfortOfASingleRun) {
  expect_printed(false_comfort(predict(kElectraEm, 1), 0.3), 0.76, 2);
  expect_printed(false_comfort(predict(kElectraEm, 1), 0.0), 0.95, 2);
  expect_printed(false_comfort(predict(kResnet250ep, 1), 0.3), 0.1271, 4);  // SciPy, nct
  EXPECT_EQ(false_comfort(predict({1, 0, 3, 0}, 1), 0.3), 0);
}

TEST(Prediction, WithBorrowedSpread) {
  const Prediction one = predict_with_borrowed_sd({34.53, 0, 1, 0}, kEfficientDet, 1);
  EXPECT_DOUBLE_EQ(one.se, kEfficientDet.sd * std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(one.df, 4);
  EXPECT_NEAR(one.two_sided_p(one.interval(0.99).lower), 0.01, 1e-9);
}

TEST(Borrowed, FormulaSheet) {
  // One run of ours against one published run, the sd of five others: df 4, se = sd * sqrt(2).
  const MeanComparison one = with_borrowed_sd({34.53, 0, 1, 0}, kEfficientDet, {34.40, 0, 1, 0});
  EXPECT_DOUBLE_EQ(one.df, 4);
  EXPECT_DOUBLE_EQ(one.se, kEfficientDet.sd * std::sqrt(2.0));
  EXPECT_NEAR(one.interval95.upper - one.delta, student_quantile(0.975, 4) * one.se, 1e-12);
  // Three of ours pool their own sd: df 5 + 3 - 2.
  const Summary own = summarise(Values{34.31, 34.47, 34.22});
  const MeanComparison pooled = with_borrowed_sd({34.53, 0, 1, 0}, kEfficientDet, own);
  EXPECT_DOUBLE_EQ(pooled.df, 6);
  const double variance = (4 * kEfficientDet.sd * kEfficientDet.sd + 2 * own.sd * own.sd) / 6;
  EXPECT_NEAR(pooled.se, std::sqrt(variance * (1 + 1.0 / 3)), 1e-12);
}

TEST(Extremes, PredictiveInterval) {
  const Summary unit{0, 1, 8, 0};
  struct Row {
    int k;
    double low, high;
  };
  // tests/fixtures/recipe_run_statistics.py
  for (const Row& row : {Row{3, -0.795, 3.264}, Row{5, -0.263, 3.617}, Row{8, 0.120, 3.937}}) {
    const Interval interval = extreme_interval(unit, row.k, true);
    EXPECT_NEAR(interval.lower, row.low, 0.01) << row.k;
    EXPECT_NEAR(interval.upper, row.high, 0.01) << row.k;
  }
  const Interval resnet = extreme_interval(kResnet90ep, 8, true);
  EXPECT_NEAR(resnet.lower, 77.162, 0.001);
  EXPECT_NEAR(resnet.upper, 77.150 + 3.937 * 0.098, 0.001);
  EXPECT_TRUE(resnet.contains(77.266));
  const Interval smallest = extreme_interval(kResnet90ep, 8, false);
  EXPECT_NEAR(smallest.upper + resnet.lower, 2 * 77.150, 1e-9);
}

TEST(Extremes, ProbabilityFitsTheInterval) {
  const Interval interval = extreme_interval(kResnet90ep, 5, true, 0.95);
  EXPECT_NEAR(extreme_two_sided_p(kResnet90ep, 5, true, interval.upper), 0.05, 1e-4);
  EXPECT_NEAR(extreme_two_sided_p(kResnet90ep, 5, true, interval.lower), 0.05, 1e-4);
  const Interval least = extreme_interval(kResnet90ep, 5, false, 0.95);
  EXPECT_NEAR(extreme_two_sided_p(kResnet90ep, 5, false, least.lower), 0.05, 1e-4);
}

TEST(SdRatio, FiveAgainstFive) {
  const Interval usual = unremarkable_sd_ratio(5, 5);
  expect_printed(usual.lower, 0.32, 2);
  expect_printed(usual.upper, 3.1, 1);
  const SdRatio ratio = sd_ratio({0, 1, 5, 0}, {0, 2, 5, 0});
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_NEAR(ratio.interval95.lower, 2 / usual.upper, 1e-9);
  EXPECT_TRUE(ratio.interval95.contains(1));
  EXPECT_THROW(sd_ratio({0, 0, 5, 0}, {0, 1, 5, 0}), std::domain_error);
}

TEST(SdRatio, UpperLimitOfASpread) {
  // Chi-squared, 20 % point, 7 and 4 degrees.
  expect_printed(sd_upper_factor(8), std::sqrt(7 / 3.8223), 3);
  expect_printed(sd_upper_factor(5), std::sqrt(4 / 1.6488), 3);
}

const Values kResnetMxnet32 = {11434.12, 11305.35, 11461.68, 11331.93,
                               11429.36, 11313.33, 11283.49};
const Values kResnetMxnet1 = {392.24, 393.53, 391.77, 390.09, 392.63, 392.85, 391.58};

TEST(Repeats, MedianOfSevenAgainstThePublishedThroughput) {
  const MedianInterval m = median_interval(kResnetMxnet32);
  EXPECT_DOUBLE_EQ(m.median, 11331.93);
  expect_printed(m.median / 11233.92, 1.0087, 4);
  expect_printed(m.interval.lower / 11233.92, 1.0044, 4);
  expect_printed(m.interval.upper / 11233.92, 1.0203, 4);
  expect_printed(m.coverage, 0.984, 3);
  expect_printed(order_interval_coverage(7, 1), 0.875, 3);
}

TEST(Repeats, CoverageFormulasAndFewRepeats) {
  for (int n = 4; n <= 12; ++n) {
    EXPECT_NEAR(order_interval_coverage(n, 0), 1 - std::pow(2.0, 1 - n), 1e-12);
    EXPECT_NEAR(order_interval_coverage(n, 1), 1 - (n + 1) * std::pow(2.0, 1 - n), 1e-12);
  }
  EXPECT_EQ(median_interval(Values{5}).coverage, 0);
  EXPECT_EQ(median_interval(Values{5}).interval.lower, 5);
}

TEST(Repeats, HodgesLehmannRatioOfWeakScaling) {
  const RatioInterval r = ratio_interval(kResnetMxnet32, kResnetMxnet1);
  expect_printed(r.ratio, 28.94, 2);
  EXPECT_EQ(r.lower_rank, 9);
  EXPECT_EQ(r.upper_rank, 41);
  expect_printed(r.interval.lower, 28.80, 2);
  expect_printed(r.interval.upper, 29.19, 2);
  // The divisor is printed with two decimals: 28.665 to 28.675.
  EXPECT_NEAR(r.interval.lower / 28.67, 1.0045, 0.0002);
  EXPECT_NEAR(r.interval.upper / 28.67, 1.0182, 0.0002);
  EXPECT_EQ(mann_whitney_critical(7, 7, 0.025), 8);
  EXPECT_EQ(mann_whitney_critical(2, 2, 0.025), -1);
  EXPECT_THROW(ratio_interval(Values{1}, Values{0}), std::domain_error);
}

TEST(Permutation, AllSplitsOfShortLists) {
  // 5 against 5: 252 splits; full separation is the most extreme one and its mirror image.
  const Values low = {1, 2, 3, 4, 5};
  const Values high = {11, 12, 13, 14, 15};
  EXPECT_NEAR(*permutation_p(low, high), 2.0 / 252, 1e-12);
  EXPECT_NEAR(*permutation_p(Values{0, 1}, Values{0, 1}), 1, 1e-12);
  // By hand: of {1,2}{3,5}, {1,3}{2,5}, {1,5}{2,3} and mirrors only the first is as far apart.
  EXPECT_NEAR(*permutation_p(Values{1, 2}, Values{3, 5}), 2.0 / 6, 1e-12);
  EXPECT_FALSE(permutation_p(Values(20, 1.0), Values(20, 2.0)).has_value());
  EXPECT_FALSE(permutation_p(Values{}, Values{1}).has_value());
}

TEST(Sequential, ThreeLooksShareFivePerCent) {
  EXPECT_NEAR(level_of_look(0) + level_of_look(1) + level_of_look(2), 0.05, 1e-12);
  EXPECT_EQ(level_of_look(3), 0);
  EXPECT_EQ(planned_looks(5, 10), (std::vector<uint32_t>{5, 8, 10}));
  EXPECT_EQ(planned_looks(3, 4), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(planned_looks(3, 0), (std::vector<uint32_t>{3}));
  const std::vector<Look> made = {{5, 0.020}, {8, 0.015}};
  EXPECT_EQ(level_at({}, 5, false), 0.05) << "one look has everything";
  EXPECT_EQ(level_at({}, 5, true), 0.020);
  EXPECT_EQ(level_at(made, 5, true), 0.020) << "the same report again";
  EXPECT_EQ(level_at(made, 8, true), 0.015);
  EXPECT_EQ(level_at(made, 10, false), 0.015);
  EXPECT_EQ(level_at(std::vector<Look>{{3, 0.020}, {4, 0.015}, {5, 0.015}}, 6, false), 0)
      << "nothing left";
}

// Seeds that were not planned come after a look that may have spent everything.
TEST(Sequential, ALookHasAtMostWhatThoseBeforeItLeft) {
  const std::vector<Look> spent = {{3, 0.05}};
  EXPECT_EQ(level_at(spent, 3, true), 0.05) << "that look keeps what it had";
  EXPECT_EQ(level_at(spent, 5, false), 0);
  EXPECT_EQ(level_at(spent, 5, true), 0);
  EXPECT_NEAR(level_at(std::vector<Look>{{3, 0.04}}, 5, false), 0.01, 1e-12);
  for (const bool room_at_first : {false, true}) {
    std::vector<Look> looks;
    double sum = 0;
    for (uint32_t runs = 3; runs < 10; ++runs) {
      const double level = level_at(looks, runs, room_at_first || runs > 3);
      looks.push_back({runs, level});
      sum += level;
    }
    EXPECT_NEAR(sum, 0.05, 1e-12);
  }
}

// Three peeks at data that are truly different by the margin: a plain 5 % each time would claim
// equivalence too often, the shared levels do not.
TEST(Sequential, TheLevelsHoldWhatTheyPromise) {
  constexpr int kDraws = 20'000;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 0.1);
  int plain = 0;
  int shared = 0;
  for (int i = 0; i < kDraws; ++i) {
    Values published;
    Values own;
    for (int j = 0; j < 8; ++j) published.push_back(normal(random));
    bool plain_claim = false;
    bool shared_claim = false;
    const auto looks = planned_looks(3, 7);
    for (size_t look = 0; look < looks.size(); ++look) {
      while (own.size() < looks[look]) own.push_back(normal(random) - 0.3);
      const MeanComparison c = welch(summarise(published), summarise(own));
      plain_claim |= c.equivalence_interval(0.05).inside(-0.3, 0.3);
      shared_claim |=
          c.equivalence_interval(level_of_look(static_cast<int>(look))).inside(-0.3, 0.3);
    }
    plain += plain_claim;
    shared += shared_claim;
  }
  EXPECT_LE(shared, 0.05 * kDraws);
  EXPECT_GT(plain, 0.06 * kDraws) << "so the correction is needed";
}

TEST(Holm, StepsDownAndStopsAtTheFirstFailure) {
  const std::vector<double> adjusted = holm_adjusted(Values{0.01, 0.04, 0.03, 0.005});
  EXPECT_NEAR(adjusted[0], 0.03, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[3], 0.02, 1e-12);
  EXPECT_TRUE(holm_adjusted(Values{}).empty());
}

TEST(Distributions, RefuseNonsense) {
  EXPECT_THROW(student_quantile(NAN, 4), std::domain_error);
  EXPECT_THROW(student_quantile(0.5, 0), std::domain_error);
  EXPECT_THROW(normal_quantile(1.5), std::domain_error);
  EXPECT_THROW(fisher_quantile(0.5, -1, 3), std::domain_error);
  EXPECT_EQ(binomial_cdf(-1, 5, 0.5), 0);
}

}  // namespace
}  // namespace reciperun
