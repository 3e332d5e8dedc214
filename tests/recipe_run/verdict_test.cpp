// Verdicts: the worked examples of the published rows, the operating characteristics of the rules,
// and whole rows.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/judge/rules.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<double>;

const Summary kResnet90ep{77.150, 0.098, 8, 0};
const Summary kEfficientDet = summarise(Values{34.38, 34.56, 34.30, 34.34, 34.40});
const Summary kElectraEm = summarise(Values{86.99, 86.81, 86.95, 87.10, 87.26});

Tolerance points(double margin) {
  Tolerance t;
  t.margin = margin;
  t.decimals = 2;
  return t;
}

TEST(Means, WorkedExamples) {
  const auto verdict = [](const Summary& published, const Values& own) {
    return judge_means(published, summarise(own), points(0.30)).verdict;
  };
  EXPECT_EQ(verdict(kEfficientDet, {34.31, 34.47, 34.22}), Verdict::kReproduced);
  EXPECT_EQ(verdict(kResnet90ep, {77.121, 77.206, 77.058, 77.177}), Verdict::kReproduced);
  EXPECT_EQ(verdict(kElectraEm, {86.80, 86.95, 86.71}), Verdict::kWithinTolerance);
  EXPECT_EQ(verdict(kElectraEm, {86.35, 86.52, 86.41, 86.60, 86.47}), Verdict::kDiffersWorse);
  const Judgement drop =
      judge_means(kElectraEm, summarise(Values{86.80, 86.95, 86.71}), points(0.30));
  EXPECT_THAT(drop.reason, HasSubstr("\u22120.40 cannot be excluded"));
  // Significantly different and equivalent all the same.
  EXPECT_EQ(judge_means({77.313, 0.085, 8, 0}, kResnet90ep, points(0.30)).verdict,
            Verdict::kReproduced);
}

TEST(Means, DirectionMarginAndInconclusive) {
  Tolerance t = points(0.30);
  EXPECT_EQ(judge_means(kResnet90ep, {77.9, 0.1, 8, 0}, t).verdict, Verdict::kDiffersBetter);
  t.one_sided = true;
  const Judgement better = judge_means(kResnet90ep, {77.9, 0.1, 8, 0}, t);
  EXPECT_EQ(better.verdict, Verdict::kReproduced);
  EXPECT_THAT(better.reason, HasSubstr("better, higher by 0.75"));
  t = points(0.30);
  t.higher_is_better = false;
  t.lower_is_better = true;
  EXPECT_EQ(judge_means(kResnet90ep, {77.9, 0.1, 8, 0}, t).verdict, Verdict::kDiffersWorse);
  const Judgement wide = judge_means(kElectraEm, summarise(Values{86.9, 86.1}), points(0.30));
  EXPECT_EQ(wide.verdict, Verdict::kInconclusive);
  EXPECT_THAT(wide.reason, HasSubstr("runs would decide"));
}

TEST(Means, MeasurablyLowerInsideTheMargin) {
  const Judgement j = judge_means({77.313, 0.085, 8, 0}, {77.05, 0.05, 8, 0}, points(0.30));
  EXPECT_EQ(j.verdict, Verdict::kWithinTolerance);
  EXPECT_THAT(j.reason, HasSubstr("measurably lower by 0.26, inside the margin"));
}

// Inside the 95 % interval CONSISTENT, whatever the margin; DIFFERS only outside the margin and the
// 99 % interval.
TEST(SingleRun, PredictionIntervalAndMargin) {
  EXPECT_EQ(judge_single_run(kEfficientDet, 34.53, points(0.05)).verdict, Verdict::kConsistent);
  EXPECT_EQ(judge_single_run(kEfficientDet, 34.02, points(0.30)).verdict, Verdict::kInconclusive);
  // 50 epochs of ResNet-50, one run lower by 0.28 of a margin of 0.30: surely lower, yet inside.
  const Judgement inside = judge_single_run({76.308, 0.073, 8, 0}, 76.028, points(0.30));
  EXPECT_EQ(inside.verdict, Verdict::kWithinTolerance);
  EXPECT_THAT(inside.reason, HasSubstr("but inside the margin"));
  // ELECTRA, one run lower by 0.50: outside the margin, and nothing unusual for its spread.
  EXPECT_EQ(judge_single_run(kElectraEm, kElectraEm.mean - 0.50, points(0.30)).verdict,
            Verdict::kConsistent);
  EXPECT_EQ(judge_single_run(kEfficientDet, 33.5, points(0.30)).verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(judge_single_run({92.718, 0.1445, 5, 0}, 90.58, points(0.30)).verdict,
            Verdict::kDiffersWorse);
  EXPECT_EQ(judge_single_run({10, 0.001, 5, 0}, 10.01, points(0.30)).verdict,
            Verdict::kWithinTolerance);
  EXPECT_EQ(judge_single_run({10, 0.001, 5, 0}, 10.31, points(0.30)).verdict,
            Verdict::kDiffersBetter);
  EXPECT_EQ(judge_single_run({10, 0, 5, 0}, 10, points(0.30)).verdict, Verdict::kConsistent);
  EXPECT_EQ(judge_single_run({10, 0, 5, 0}, 9, points(0.30)).verdict, Verdict::kDiffersWorse);
}

TEST(SingleRun, SaysHowOftenADropWouldPass) {
  const Judgement j = judge_single_run(kElectraEm, 87.0, points(0.30));
  EXPECT_THAT(j.reason, HasSubstr("a true difference of 0.30 would pass 76 % of the time"));
}

TEST(SingleRun, BetterIsNeverOutsideAOneSidedMargin) {
  Tolerance t = points(0.30);
  t.one_sided = true;
  EXPECT_EQ(judge_single_run(kEfficientDet, 36, t).verdict, Verdict::kWithinTolerance);
  EXPECT_EQ(judge_single_run(kEfficientDet, 33, t).verdict, Verdict::kDiffersWorse);
}

Judgement judge_mean(const Published& published, const Values& own, double margin) {
  return judge_runs(Statistic::kMean, published, own, points(margin));
}

TEST(Borrowed, ASingleRunNeverReproduces) {
  const Summary tight{34.4, 0.01, 5, 0};
  const auto judge = [](const Summary& published, const Summary& lender, const Values& own) {
    return judge_mean({published, {}, lender}, own, 0.30);
  };
  EXPECT_EQ(judge({34.53, 0, 1, 0}, tight, {34.52}).verdict, Verdict::kConsistent);
  EXPECT_EQ(judge({34.53, 0, 8, 0}, tight, {34.53}).verdict, Verdict::kConsistent);
  EXPECT_EQ(judge({34.53, 0, 8, 0}, tight, {34.10}).verdict, Verdict::kDiffersWorse);
  const Judgement several = judge({34.53, 0, 1, 0}, kEfficientDet, {34.50, 34.52, 34.61, 34.44});
  EXPECT_EQ(several.verdict, Verdict::kReproduced);
  EXPECT_THAT(several.reason, HasSubstr("spread borrowed from a neighbouring row"));
  EXPECT_THAT(judge_mean({{34.53, 0, 1, 0}, {}, tight, "toy/other"}, {34.5, 34.6}, 0.30).reason,
              HasSubstr("spread borrowed from 'toy/other'"));
}

TEST(Lists, ThePermutationTestIsNamedWhereItDisagrees) {
  const Values published = {10.0, 10.1, 10.2};
  const auto judge = [&](const Values& own) {
    return judge_mean({summarise(published), published}, own, 1.0);
  };
  // Fully separated: Welch 0.02, but 2 of 20 splits.
  EXPECT_THAT(judge({10.3, 10.4, 10.5}).reason,
              HasSubstr("the exact permutation test says p 0.1000, Welch's p 0.02"));
  EXPECT_THAT(judge({10.1, 10.0, 10.2}).reason, ::testing::Not(HasSubstr("permutation")));
}

TEST(Levels, EarlyLooksClaimLess) {
  Tolerance t = points(0.30);
  const Summary own{86.99, 0.10, 5, 0};
  EXPECT_EQ(judge_means(kElectraEm, own, t).verdict, Verdict::kReproduced);
  t.level = 0.005;
  EXPECT_EQ(judge_means(kElectraEm, own, t).verdict, Verdict::kWithinTolerance);
  // A difference that is significant at 5 % is not at the share of an early look.
  EXPECT_EQ(judge_means({10, 0.3, 5, 0}, {9.55, 0.3, 5, 0}, points(0.30)).verdict,
            Verdict::kDiffersWorse);
  Tolerance early = points(0.30);
  early.level = 0.02;
  EXPECT_EQ(judge_means({10, 0.3, 5, 0}, {9.55, 0.3, 5, 0}, early).verdict, Verdict::kInconclusive);
  t.level = 0;
  const Judgement spent = judge_means(kResnet90ep, {77.15, 0.05, 8, 0}, t);
  EXPECT_EQ(judge_means(kResnet90ep, {75.15, 0.05, 8, 0}, t).verdict, Verdict::kInconclusive);
  EXPECT_EQ(spent.verdict, Verdict::kWithinTolerance);
  EXPECT_THAT(spent.reason, HasSubstr("looked at too often"));
}

// A number that nobody's spread stands beside: our own does, and one run has none.
TEST(NoSpread, OwnSpreadOrTheMarginAlone) {
  const auto judge = [](const Values& own) {
    return judge_mean({{0.934, 0, 0, 0}}, own, 0.005).verdict;
  };
  EXPECT_EQ(judge({0.9338, 0.9342, 0.9335}), Verdict::kReproduced);
  EXPECT_EQ(judge({0.9338, 0.9382, 0.9295}), Verdict::kWithinTolerance);
  EXPECT_EQ(judge({0.9338}), Verdict::kWithinTolerance);
  EXPECT_EQ(judge({0.92}), Verdict::kInconclusive);
  EXPECT_EQ(judge({0.921, 0.920, 0.922}), Verdict::kDiffersWorse);
  EXPECT_EQ(judge({0.921, 0.935, 0.912}), Verdict::kInconclusive);
  EXPECT_EQ(judge({0.945, 0.946, 0.9455}), Verdict::kDiffersBetter);
}

TEST(Extreme, OurNumberOfRunsDecides) {
  const Values eight = {77.0, 77.05, 77.1, 77.12, 77.15, 77.18, 77.2, 77.266};
  EXPECT_EQ(judge_extreme(kResnet90ep, eight, true, points(0)).verdict, Verdict::kConsistent);
  // 77.10 would be low for the maximum of eight, and is not for the maximum of three.
  EXPECT_EQ(judge_extreme(kResnet90ep, Values{77.0, 77.05, 77.10}, true, points(0)).verdict,
            Verdict::kConsistent);
  EXPECT_NE(judge_extreme(kResnet90ep, Values(8, 77.10), true, points(0)).verdict,
            Verdict::kConsistent);
  EXPECT_EQ(judge_extreme(kResnet90ep, Values{76.9, 77.1, 76.0}, false, points(0)).verdict,
            Verdict::kDiffersWorse);
}

TEST(Spread, FromTheFDistribution) {
  EXPECT_EQ(judge_spread({0, 0.17, 5, 0}, {0, 0.4, 5, 0}, {}).verdict, Verdict::kConsistent);
  const Judgement wide =
      judge_spread({0, 0.17, 5, 0}, {0, 0.8, 5, 0}, {});  // outside 95 %, inside 99 %
  EXPECT_EQ(wide.verdict, Verdict::kInconclusive);
  EXPECT_THAT(wide.reason, HasSubstr("outside it, p 0.0"));
  EXPECT_EQ(judge_spread({0, 0.17, 5, 0}, {0, 0.9, 5, 0}, {}).verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(judge_spread({0, 0.17, 5, 0}, {0, 0.01, 5, 0}, {}).verdict, Verdict::kDiffersBetter);
  EXPECT_EQ(judge_spread({0, 0.17, 5, 0}, {0, 0, 1, 0}, {}).verdict, Verdict::kInconclusive);
}

const Values kResnetMxnet32 = {11434.12, 11305.35, 11461.68, 11331.93,
                               11429.36, 11313.33, 11283.49};
const Values kResnetMxnet1 = {392.24, 393.53, 391.77, 390.09, 392.63, 392.85, 391.58};

Tolerance timing(double margin, bool higher) {
  Tolerance t;
  t.margin = margin;
  t.higher_is_better = higher;
  t.lower_is_better = !higher;
  t.one_sided = true;
  return t;
}

TEST(Ratio, ThroughputLatencyAndScaling) {
  const Judgement worked = judge_ratio(11233.92, kResnetMxnet32, timing(0.05, true));
  EXPECT_EQ(worked.verdict, Verdict::kReproduced);
  EXPECT_THAT(worked.reason, HasSubstr("below all repeats"));
  EXPECT_EQ(judge_ratio(12500, kResnetMxnet32, timing(0.05, true)).verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(judge_ratio(11930, kResnetMxnet32, timing(0.05, true)).verdict, Verdict::kInconclusive);
  EXPECT_EQ(judge_ratio(11900, kResnetMxnet32, timing(0.05, true)).verdict,
            Verdict::kWithinTolerance);
  const Judgement faster = judge_ratio(9000, kResnetMxnet32, timing(0.05, true));
  EXPECT_EQ(faster.verdict, Verdict::kReproduced);
  EXPECT_THAT(faster.reason, HasSubstr("better, 1.259 times"));
  EXPECT_EQ(judge_ratio(11000, Values{11000}, timing(0.05, true)).verdict,
            Verdict::kWithinTolerance);
  EXPECT_EQ(judge_ratio(12500, Values{11000}, timing(0.05, true)).verdict, Verdict::kInconclusive);
  // Latency: ten per cent above is the limit.
  EXPECT_EQ(judge_ratio(26.31, Values{28, 28.1, 28.2, 28.3, 28.4, 28.5, 28.9}, timing(0.10, false))
                .verdict,
            Verdict::kReproduced);
  EXPECT_EQ(judge_ratio(26.31, Values{29.5, 29.6, 29.7, 29.8, 29.9, 30, 30.1}, timing(0.10, false))
                .verdict,
            Verdict::kDiffersWorse);
  EXPECT_EQ(judge_speedup(28.67, kResnetMxnet32, kResnetMxnet1, timing(0.05, true)).verdict,
            Verdict::kReproduced);
}

// Fewer than six repeats have no order-statistic interval of 95 %: Student's of the logarithms
// does.
TEST(Ratio, FewRepeats) {
  EXPECT_EQ(judge_ratio(3.0, Values{3.00, 3.01, 2.99}, timing(0.10, false)).verdict,
            Verdict::kReproduced);
  EXPECT_EQ(judge_ratio(3.0, Values{3.0, 3.6, 2.6}, timing(0.10, false)).verdict,
            Verdict::kWithinTolerance);
  EXPECT_EQ(judge_ratio(3.0, Values{4.00, 4.01, 3.99}, timing(0.10, false)).verdict,
            Verdict::kDiffersWorse);
  EXPECT_EQ(judge_speedup(2.0, Values{6.0, 6.01}, Values{3.0, 3.01}, timing(0.03, true)).verdict,
            Verdict::kReproduced);
  EXPECT_EQ(judge_speedup(2.0, Values{6.0}, Values{3.0}, timing(0.03, true)).verdict,
            Verdict::kWithinTolerance);
}

// A two-sided margin is left on both sides, and only an interval inside of both shows equivalence.
TEST(Ratio, TwoSidedMargin) {
  Tolerance t = timing(0.10, false);
  t.one_sided = false;
  const auto verdict = [&](const Values& own) { return judge_ratio(10, own, t).verdict; };
  EXPECT_EQ(verdict({9.9, 10, 10.1, 10, 10.1, 9.9, 10}), Verdict::kReproduced);
  EXPECT_EQ(verdict({18, 18.1, 17.9, 18, 18.1, 17.9, 18}), Verdict::kDiffersWorse);
  EXPECT_EQ(verdict({8, 8.1, 7.9, 8, 8.1, 7.9, 8}), Verdict::kDiffersBetter);
  EXPECT_EQ(verdict({9.5, 10.5, 8.5, 9.5, 9.5, 9.5, 9.5}), Verdict::kWithinTolerance);
}

TEST(Ratio, SpeedupFarBelowIsSignificantAmongManyRows) {
  const Judgement j = judge_speedup(33, kResnetMxnet32, kResnetMxnet1, timing(0.05, true));
  EXPECT_EQ(j.verdict, Verdict::kDiffersWorse);
  EXPECT_LT(*j.p, 1e-6) << "small enough for a report of thousands of rows";
}

TEST(Ratio, ProjectionsNeverReproduce) {
  const auto verdict = [](double hours, Interval interval) {
    return judge_projection(3.0, hours, interval, timing(0.10, false)).verdict;
  };
  EXPECT_EQ(verdict(3.0, {2.95, 3.05}), Verdict::kWithinTolerance);
  EXPECT_EQ(verdict(2.0, {1.95, 2.05}), Verdict::kWithinTolerance);
  EXPECT_EQ(verdict(3.4, {3.2, 3.6}), Verdict::kInconclusive);
  EXPECT_EQ(verdict(4.0, {3.9, 4.1}), Verdict::kDiffersWorse);
}

TEST(ManyRows, HolmTurnsChanceFindingsIntoInconclusive) {
  std::vector<Judgement> rows(4);
  for (Judgement& row : rows) row.verdict = Verdict::kDiffersWorse;
  rows[0].p = 0.04;
  rows[1].p = 0.0001;
  rows[2].p = 0.03;
  rows[3].verdict = Verdict::kReproduced;
  rows[3].p = 0.6;
  std::vector<Judgement*> all;
  for (Judgement& row : rows) all.push_back(&row);
  correct_for_many_rows(all);
  EXPECT_EQ(rows[0].verdict, Verdict::kInconclusive);
  EXPECT_EQ(rows[1].verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(rows[2].verdict, Verdict::kInconclusive);
  EXPECT_EQ(rows[3].verdict, Verdict::kReproduced);
}

TEST(ManyRows, EveryTestedRowIsCounted) {
  std::vector<Judgement> rows(4);
  std::vector<Judgement*> all;
  for (Judgement& row : rows) {
    row.verdict = Verdict::kReproduced;
    row.p = 0.5;
    all.push_back(&row);
  }
  rows[0].verdict = Verdict::kDiffersWorse;
  rows[0].p = 0.02;  // by chance in one of four rows, each at 5 %
  correct_for_many_rows(all);
  EXPECT_EQ(rows[0].verdict, Verdict::kInconclusive);
  EXPECT_THAT(rows[0].reason, HasSubstr("among the 4 rows that were tested"));
  rows[0].verdict = Verdict::kDiffersWorse;
  rows[0].p = 0.012;
  correct_for_many_rows(all);
  EXPECT_EQ(rows[0].verdict, Verdict::kDiffersWorse);
  rows[0].level = 0.02;  // an early look
  correct_for_many_rows(all);
  EXPECT_EQ(rows[0].verdict, Verdict::kInconclusive);
}

// Shares of REPRODUCED, CONSISTENT or WITHIN, INCONCLUSIVE, DIFFERS when both sides are drawn anew.
std::array<double, 4> shares(double sd, int published_n, int own_n, double true_delta) {
  constexpr int kDraws = 20'000;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, sd);
  std::array<double, 4> counts{};
  for (int i = 0; i < kDraws; ++i) {
    Values published;
    Values own;
    for (int j = 0; j < published_n; ++j) published.push_back(normal(random));
    for (int j = 0; j < own_n; ++j) own.push_back(normal(random) + true_delta);
    const Summary p = summarise(published);
    const Verdict verdict = own_n == 1 ? judge_single_run(p, own[0], points(0.30)).verdict
                                       : judge_means(p, summarise(own), points(0.30)).verdict;
    const size_t at = verdict == Verdict::kReproduced                                           ? 0
                      : verdict == Verdict::kWithinTolerance || verdict == Verdict::kConsistent ? 1
                      : verdict == Verdict::kInconclusive                                       ? 2
                                                                                                : 3;
    counts[at] += 1.0 / kDraws;
  }
  return counts;
}

TEST(OperatingCharacteristics, OfTheRules) {
  struct Case {
    double sd;
    int published_n, own_n;
    double delta;
    std::array<double, 4> expected;
  };
  for (const Case& c :
       {Case{0.169, 5, 3, 0, {.38, .61, .01, .01}}, Case{0.169, 5, 3, -0.3, {.05, .45, .15, .35}},
        Case{0.169, 5, 8, 0, {.76, .24, 0, 0}}, Case{0.0994, 5, 3, -0.3, {.05, .46, .03, .47}},
        Case{0.098, 8, 3, 0, {.91, .09, 0, 0}}, Case{0.169, 5, 1, 0, {0, .97, .02, .01}}}) {
    const auto got = shares(c.sd, c.published_n, c.own_n, c.delta);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(got[i], c.expected[i], 0.0125)
          << c.sd << " " << c.own_n << " " << c.delta << " " << i;
  }
}

v1::Recipe recipe_of(const std::string& text) {
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &recipe)) << text;
  return recipe;
}

Trial trial(double accuracy) {
  Trial t;
  t.metrics["accuracy"] = accuracy;
  t.train_seconds = 90;
  return t;
}

BenchResult bench(const std::string& id, uint32_t batch, double rate) {
  BenchResult b;
  b.bench = id;
  b.batch = batch;
  for (int i = 0; i < 7; ++i)
    b.repeats.push_back({rate * (1 + 0.001 * i), Values(400, batch / rate)});
  return b;
}

TEST(Rows, WithPublishedValue) {
  const v1::Recipe recipe = recipe_of(R"(
    expect { id: "a" metric: "accuracy" unit: "%" direction: HIGHER single { v: 93.4 } margin { absolute: 0.5 } gate: true
             at { printed: "93.4" } })");
  Measurements m;
  m.trials = {trial(0.9338), trial(0.9342), trial(0.9335)};
  const Row row = make_rows(recipe, m)[0];
  EXPECT_EQ(row.published, "93.4");
  EXPECT_EQ(row.published_n, "?");
  EXPECT_EQ(row.measured, "93.38 ± 0.04");
  EXPECT_EQ(row.delta, "\u22120.02");
  EXPECT_EQ(row.margin, "±0.50");
  EXPECT_EQ(row.judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(exit_of_rows({row}, true), Exit::kOk);
  m.not_comparable = "modified: training.epochs 90 → 5";
  const Row modified = make_rows(recipe, m)[0];
  EXPECT_EQ(modified.judgement.verdict, Verdict::kNotComparable);
  EXPECT_EQ(modified.judgement.reason, m.not_comparable);
  EXPECT_EQ(exit_of_rows({modified}, true), Exit::kNotRun);
  EXPECT_EQ(exit_of_rows(make_rows(recipe, {}), false), Exit::kOk);
  EXPECT_EQ(make_rows(recipe, {})[0].judgement.verdict, Verdict::kNotRun);
}

TEST(Rows, DivergedTrialsAreNotJustLeftOut) {
  const v1::Recipe recipe = recipe_of(R"(
    expect { id: "a" metric: "accuracy" unit: "%" direction: HIGHER single { v: 93.4 } margin { absolute: 0.5 } gate: true
             at { printed: "93.4" } })");
  Trial diverged;
  diverged.failure = "the loss is nan";
  Measurements m;
  m.trials = {trial(0.9338), trial(0.9342), diverged};
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kInconclusive);
  m.trials = {trial(0.9338), trial(0.9342), trial(0.9335), trial(0.9340), diverged};
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kReproduced);
  m.trials.push_back(diverged);
  const Judgement unstable = make_rows(recipe, m)[0].judgement;
  EXPECT_EQ(unstable.verdict, Verdict::kDiffersWorse);
  EXPECT_THAT(unstable.reason, HasSubstr("2 of 6 trials diverged"));
  m.trials = {diverged, diverged};
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kDiffersWorse);
}

TEST(Rows, ATrialBelowHalfThePublishedValueCountsAsDiverged) {
  const v1::Recipe recipe = recipe_of(R"(
    expect { id: "a" metric: "accuracy" unit: "%" direction: HIGHER single { v: 93.4 } margin { absolute: 0.5 }
             at { printed: "93.4" } })");
  Measurements m;
  m.trials = {trial(0.9338), trial(0.9342), trial(0.9335), trial(0.9340), trial(0.10)};
  const Row row = make_rows(recipe, m)[0];
  EXPECT_EQ(row.judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(row.measured_n, "4");
  EXPECT_EQ(row.note, "1 of 5 trials failed");
  m.trials.push_back(trial(0.11));
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kDiffersWorse);
}

// Folds are fixed parts of the data: however far they lie apart, seeds are what varies.
TEST(Rows, FoldsAreAveragedWithinASeed) {
  const v1::Recipe recipe = recipe_of(R"(
    data { id: "train" role: "train" folds { k: 5 } }
    trials { unit: "fold" count: 5 }
    expect { id: "dice" metric: "dice" unit: "1" direction: HIGHER single { v: 0.8942 n: 5 } margin { absolute: 0.005 } decimals: 4 })");
  const auto run = [](int seeds, int missing) {
    Measurements m;
    for (int i = 0; i < 5 * seeds - missing; ++i) {
      Trial t;
      t.seed = static_cast<uint64_t>(i);
      const double of_seed = 0.0004 * (i / 5 - 1), of_fold = 0.03 * (i % 5 - 2);
      t.metrics["dice"] = 0.8942 + of_seed + of_fold;
      m.trials.push_back(t);
    }
    return m;
  };
  const Row three = make_rows(recipe, run(3, 0))[0];
  EXPECT_EQ(three.judgement.verdict, Verdict::kReproduced) << three.judgement.reason;
  EXPECT_EQ(three.measured, "0.8942 ± 0.0004");
  EXPECT_EQ(three.measured_n, "3 × 5 folds");
  EXPECT_EQ(three.published_n, "1");
  EXPECT_EQ(three.values.size(), 3u);
  const Row one = make_rows(recipe, run(1, 0))[0];
  EXPECT_EQ(one.judgement.verdict, Verdict::kWithinTolerance);
  EXPECT_EQ(one.measured, "0.8938");
  EXPECT_EQ(make_rows(recipe, run(2, 1))[0].values.size(), 1u) << "a fold of the second is missing";
  const Row none = make_rows(recipe, run(1, 2))[0];
  EXPECT_EQ(none.judgement.verdict, Verdict::kNotRun);
  EXPECT_EQ(none.judgement.reason, "no seed has finished all its 5 folds");
}

// "10 ms ± 1 ms" is a tenth, in the unit that the row has.
TEST(Rows, AnAbsoluteMarginOfATiming) {
  const v1::Recipe recipe = recipe_of(R"(
    platform { device: "cpu" }
    bench { id: "infer" mode: INFER batch: 8 }
    expect { id: "ms" bench: "infer" metric: "latency_mean" unit: "ms" direction: LOWER single { v: 10 n: 1 } margin { absolute: 1 } }
    expect { id: "rate" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 800 n: 1 } margin { absolute: 50 } })");
  const auto verdicts = [&](double milliseconds) {
    Measurements m;
    m.device = "cpu";
    m.benches = {bench("infer", 8, 8 / milliseconds * 1000)};
    const std::vector<Row> rows = make_rows(recipe, m);
    EXPECT_EQ(rows[0].margin, "±10 %");
    EXPECT_EQ(rows[1].margin, "±6.3 %");
    return std::pair(rows[0].judgement.verdict, rows[1].judgement.verdict);
  };
  EXPECT_EQ(verdicts(18), std::pair(Verdict::kDiffersWorse, Verdict::kDiffersWorse));
  EXPECT_EQ(verdicts(10), std::pair(Verdict::kReproduced, Verdict::kReproduced));
  EXPECT_EQ(verdicts(5), std::pair(Verdict::kDiffersBetter, Verdict::kDiffersBetter));
}

TEST(Rows, DevicesDecideWhatAnAccuracyIsComparedWith) {
  const v1::Recipe recipe = recipe_of(R"(
    topology { nodes: 1 devices_per_node: 8 }
    platform { device: "cpu" }
    bench { id: "train" mode: TRAIN }
    expect { id: "one" metric: "accuracy" unit: "%" direction: HIGHER single { v: 93.4 } margin { absolute: 0.5 }
             scope { devices: 1 } decimals: 1 }
    expect { id: "eight" metric: "accuracy" unit: "%" direction: HIGHER single { v: 93.4 } margin { absolute: 0.5 } decimals: 1 }
    expect { id: "speed" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 100 }
             scope { devices: 1 batch: 8 } })");
  Measurements m;
  m.device = "cpu";
  m.trials = {trial(0.9338), trial(0.9342), trial(0.9335)};
  m.benches = {bench("train", 8, 100)};
  std::vector<Row> rows = make_rows(recipe, m);
  EXPECT_EQ(rows[0].judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(rows[1].judgement.verdict, Verdict::kNotRun);
  EXPECT_THAT(rows[1].judgement.reason, HasSubstr("--emulate-devices 8"));
  EXPECT_EQ(rows[2].judgement.verdict, Verdict::kReproduced);
  m.devices = 8;
  m.evidence = Evidence::kEmulated;
  rows = make_rows(recipe, m);
  EXPECT_EQ(rows[0].judgement.verdict, Verdict::kNotRun);
  EXPECT_EQ(rows[1].judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(rows[1].evidence, Evidence::kEmulated);
  EXPECT_EQ(rows[2].judgement.verdict, Verdict::kNotRun);
}

TEST(Rows, TimeIsProjectedWhereNobodyTrained) {
  const v1::Recipe recipe = recipe_of(R"(
    platform { device: "cpu" }
    data { id: "t" role: "train" expect_samples: 1281167 }
    training { epochs: 90 batch_per_device: 192 }
    topology { nodes: 1 devices_per_node: 8 }
    bench { id: "train" mode: TRAIN batch: 192 }
    expect { id: "ttt" metric: "time_to_train" unit: "h" direction: LOWER single { v: 3.0 } })");
  Measurements m;
  m.device = "cpu";
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kNotRun);
  m.benches = {bench("train", 192, 10723)};
  m.benches[0].devices = 8;
  const Row row = make_rows(recipe, m)[0];
  EXPECT_EQ(row.evidence, Evidence::kProjected);
  EXPECT_EQ(row.judgement.verdict, Verdict::kWithinTolerance);
  EXPECT_EQ(row.measured, "2.98");
  m.benches[0] = bench("train", 192, 5000);
  m.benches[0].devices = 8;
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kDiffersWorse);
}

TEST(Rows, MeasuredOnly) {
  const v1::Recipe recipe = recipe_of(R"(
    bench { id: "infer" mode: INFER }
    expect { id: "sd" metric: "accuracy:sd" unit: "1" direction: LOWER }
    expect { id: "thr" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER scope { batch: 8 } }
    expect { id: "p99" bench: "infer" metric: "latency" unit: "ms" direction: LOWER scope { batch: 8 } quantile { p: 0.99 def: NEAREST_RANK } }
    expect { id: "p999" bench: "infer" metric: "latency" unit: "ms" direction: LOWER scope { batch: 8 } quantile { p: 0.999 def: NEAREST_RANK } }
    expect { id: "b1" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER scope { batch: 1 } })");
  Measurements m;
  m.trials = {trial(0.93), trial(0.94)};
  m.benches = {bench("infer", 8, 1600)};
  const std::vector<Row> rows = make_rows(recipe, m);
  EXPECT_EQ(rows[0].published, "—");
  EXPECT_EQ(rows[0].measured, "0.00707");
  EXPECT_EQ(rows[0].judgement.verdict, Verdict::kNoPublishedValue);
  EXPECT_EQ(rows[1].measured, "1,605");
  EXPECT_EQ(rows[1].group, "inference throughput");
  EXPECT_EQ(rows[2].measured, "5.000");
  EXPECT_EQ(rows[3].judgement.verdict, Verdict::kInvalid);
  EXPECT_THAT(rows[3].judgement.reason, HasSubstr("n too small"));
  EXPECT_EQ(rows[4].judgement.verdict, Verdict::kNotRun);
}

TEST(Rows, TimingNeedsTheSameHardwareAndAQuietMachine) {
  const v1::Recipe recipe = recipe_of(R"(
    platform { device: "Tesla V100-SXM2-16GB" same_class: "V100-SXM2" }
    bench { id: "train" mode: TRAIN }
    expect { id: "t" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 1376 } gate: true at { printed: "1376" } })");
  Measurements m;
  m.benches = {bench("train", 192, 1400)};
  m.device = "NVIDIA H200";
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kNotComparable);
  m.device = "Tesla V100-SXM2-32GB";
  EXPECT_EQ(make_rows(recipe, m)[0].judgement.verdict, Verdict::kReproduced);
  m.benches[0].noise = {NoiseCheck{"repeats", 0.09, 0.02, 0.05, NoiseLevel::kBlock}};
  const Row noisy = make_rows(recipe, m)[0];
  EXPECT_EQ(noisy.judgement.verdict, Verdict::kInvalid);
  EXPECT_EQ(exit_of_rows({noisy}, false), Exit::kUndecided);
}

TEST(Rows, ScalingSeedsExtremesAndSuspects) {
  const v1::Recipe recipe = recipe_of(R"(
    platform { device: "cpu" }
    bench { id: "train" mode: TRAIN }
    expect { id: "g1" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER scope { devices: 1 } single { v: 100 } }
    expect { id: "g8" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER scope { devices: 8 } single { v: 780 } }
    expect { id: "scale" metric: "weak_scaling" unit: "x" direction: HIGHER ratio { v: 7.79 num: "g8" den: "g1" } decimals: 2 }
    expect { id: "seeds" metric: "accuracy" unit: "%" direction: HIGHER sample { v: [93.1, 93.3, 93.2] } margin { absolute: 0.5 } decimals: 2 }
    expect { id: "max" metric: "accuracy" unit: "%" direction: EITHER extreme { v: 93.3 n: 3 which: MAX of: "seeds" } decimals: 2 }
    expect { id: "sd" metric: "accuracy" unit: "%" direction: LOWER spread { v: 0.1 n: 3 } decimals: 2 }
    expect { id: "bad" metric: "accuracy" unit: "%" direction: HIGHER single { v: 39.2 } margin { absolute: 0.5 } decimals: 2
             suspect { why: "digits swapped" corrected: 93.2 } })");
  Measurements m;
  m.device = "cpu";
  m.trials = {trial(0.9315), trial(0.9325), trial(0.932)};
  m.benches = {bench("train", 32, 100), bench("train", 32, 790)};
  m.benches[1].devices = 8;
  const std::vector<Row> rows = make_rows(recipe, m);
  EXPECT_EQ(rows[2].judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(rows[2].measured, "7.90");
  EXPECT_EQ(rows[3].published, "93.20 ± 0.10");
  EXPECT_EQ(rows[3].judgement.verdict, Verdict::kReproduced);
  EXPECT_EQ(rows[4].measured, "93.25");
  EXPECT_EQ(rows[4].judgement.verdict, Verdict::kConsistent);
  EXPECT_EQ(rows[5].judgement.verdict, Verdict::kConsistent);
  EXPECT_EQ(rows[6].judgement.verdict, Verdict::kDiffersBetter);
  EXPECT_THAT(rows[6].note,
              HasSubstr("SUSPECT SOURCE: digits swapped; against the corrected 93.20: REPRODUCED"));
}

// Two recipes of one training: the speed of the other one in another precision, and the rows that
// need both.
struct TwoRuns {
  TwoRuns() {
    m.device = m.machine = "cpu";
    m.benches = {bench("train", 32, 100)};
    OtherRun fast{"fast-run", speed, {}};
    fast.measurements.device = fast.measurements.machine = "cpu";
    fast.measurements.benches = {bench("train", 32, 356)};
    m.others = {fast};
  }
  Row row(const std::string& id) const {
    for (const Row& r : make_rows(recipe, m)) {
      if (r.id == id) return r;
    }
    throw std::out_of_range(id);
  }

  v1::Recipe speed = recipe_of(R"(
    id: "toy/amp" platform { device: "cpu" } bench { id: "train" mode: TRAIN batch: 32 } model { arch: "toy" }
    expect { id: "g1" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 356 } })");
  v1::Recipe recipe = recipe_of(R"(
    id: "toy/fp32" platform { device: "cpu" } bench { id: "train" mode: TRAIN batch: 32 } model { arch: "toy" }
    data { id: "train" role: "train" expect_samples: 3600 } training { epochs: 10 batch_per_device: 64 }
    expect { id: "g1" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 97 } }
    expect { id: "speedup" metric: "throughput" unit: "x" direction: HIGHER
             ratio { v: 3.56 num: "g1" num_recipe: "toy/amp" den: "g1" } decimals: 2 }
    expect { id: "time" metric: "time_to_train" unit: "s" direction: LOWER single { v: 101 } })");
  Measurements m;
};

TEST(TwoRecipes, ARatioTakesOneTermFromTheOthersRun) {
  TwoRuns two;
  const Row row = two.row("speedup");
  EXPECT_EQ(row.judgement.verdict, Verdict::kReproduced) << row.judgement.reason;
  EXPECT_EQ(row.measured, "3.56");
  EXPECT_THAT(row.note, HasSubstr("with run fast-run"));
  two.m.others[0].measurements.benches = {bench("train", 32, 300)};
  EXPECT_EQ(two.row("speedup").judgement.verdict, Verdict::kDiffersWorse);
  two.m.others.clear();
  EXPECT_EQ(two.row("speedup").judgement.verdict, Verdict::kNotRun);
  EXPECT_THAT(two.row("speedup").judgement.reason, HasSubstr("needs a run of 'toy/amp' too"));
}

// The speed-up of a whole training: of the times of trials, or of what rates predict for them.
TEST(TwoRecipes, ARatioOfTimes) {
  TwoRuns two;
  v1::Expect& speedup = *two.recipe.add_expect();
  speedup.set_id("time.speedup");
  speedup.set_metric("time_to_train");
  speedup.set_unit("x");
  speedup.set_direction(v1::Expect::HIGHER);
  speedup.mutable_ratio()->set_v(2);
  speedup.mutable_ratio()->set_num("time");
  speedup.mutable_ratio()->set_den("time");
  speedup.mutable_ratio()->set_num_recipe("toy/amp");
  OtherRun& other = two.m.others[0];
  *other.recipe.add_expect() = two.recipe.expect(2);
  const auto trained = [](double seconds) {
    std::vector<Trial> trials(3);
    for (size_t i = 0; i < 3; ++i)
      trials[i].train_seconds = seconds * (1 + 0.001 * static_cast<double>(i));
    return trials;
  };
  EXPECT_EQ(two.row("time.speedup").judgement.verdict, Verdict::kNotRun);
  EXPECT_THAT(two.row("time.speedup").judgement.reason, HasSubstr("'time' of 'toy/amp'"));
  two.m.trials = trained(50);
  other.measurements.trials = trained(100);
  const Row row = two.row("time.speedup");
  EXPECT_EQ(row.judgement.verdict, Verdict::kReproduced) << row.judgement.reason;
  EXPECT_EQ(row.measured, "2.000");
  other.measurements.trials = trained(70);
  EXPECT_EQ(two.row("time.speedup").judgement.verdict, Verdict::kDiffersWorse);
  two.m.trials[1].segments = 2;
  EXPECT_EQ(two.row("time.speedup").judgement.verdict, Verdict::kInvalid) << "an interruption";
  // One side projected.
  two.m.trials.clear();
  two.recipe.mutable_bench(0)->add_batch(64);
  two.m.benches.push_back(bench("train", 64, 360 * 2));
  other.measurements.trials = trained(100);
  const Row projected = two.row("time.speedup");
  EXPECT_EQ(projected.evidence, Evidence::kProjected);
  EXPECT_EQ(projected.judgement.verdict, Verdict::kWithinTolerance) << projected.judgement.reason;
}

TEST(TwoRecipes, AreComparedOnOneMachineUnmodifiedAndQuiet) {
  TwoRuns two;
  Measurements& other = two.m.others[0].measurements;
  other.not_comparable = "modified: training.epochs 9 → 1";
  EXPECT_EQ(two.row("speedup").judgement.verdict, Verdict::kNotComparable);
  EXPECT_THAT(two.row("speedup").judgement.reason, HasSubstr("run fast-run: modified"));
  other.not_comparable = "";
  other.machine = "another";
  EXPECT_THAT(two.row("speedup").judgement.reason, HasSubstr("of another machine"));
  other.machine = "cpu";
  other.benches[0].noise = {{"steal", 0.2, 0.01, 0.05, NoiseLevel::kBlock}};
  EXPECT_EQ(two.row("speedup").judgement.verdict, Verdict::kInvalid);
}

TEST(TwoRecipes, ATimeIsProjectedFromTheOthersThroughput) {
  TwoRuns two;
  // Its own bench has batch 32, the training 64: nothing to project from.
  EXPECT_EQ(two.row("time").judgement.verdict, Verdict::kNotRun);
  EXPECT_THAT(two.row("time").judgement.reason, HasSubstr("--with"));
  two.m.others[0].recipe.mutable_bench(0)->add_batch(64);
  two.m.others[0].measurements.benches.push_back(bench("train", 64, 360));
  const Row row = two.row("time");
  EXPECT_EQ(row.evidence, Evidence::kProjected);
  EXPECT_EQ(row.judgement.verdict, Verdict::kWithinTolerance) << row.judgement.reason;
  EXPECT_EQ(row.measured, "99.7");  // 36,000 images at the median of 360 to 362.16
  EXPECT_THAT(row.note, HasSubstr("throughput of run fast-run"));
  // The interval is that of the rate, widened by the model's 2 %.
  EXPECT_LT(row.judgement.interval->lower, 100 / 101.0 * 0.99);
  EXPECT_GT(row.judgement.interval->upper, 100 / 101.0 * 1.01);
  two.m.others[0].recipe.mutable_numerics()->set_compute(v1::Numerics::AMP_BF16);
  EXPECT_EQ(two.row("time").judgement.verdict, Verdict::kNotRun) << "another precision";
}

TEST(Rows, TightHoldsThroughputsToTwoPerCent) {
  TwoRuns two;
  two.m.benches = {bench("train", 32, 93.1)};
  EXPECT_EQ(two.row("g1").judgement.verdict, Verdict::kReproduced);
  two.m.tight = true;
  EXPECT_EQ(two.row("g1").judgement.verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(two.row("g1").margin, "\u22122 %");
}

TEST(Exits, MostUrgentWins) {
  EXPECT_EQ(more_urgent(Exit::kDiffers, Exit::kUndecided), Exit::kDiffers);
  EXPECT_EQ(more_urgent(Exit::kOk, Exit::kNotRun), Exit::kNotRun);
  const std::vector<Exit> order = {Exit::kUsage,    Exit::kSourceChanged, Exit::kDataMismatch,
                                   Exit::kTampered, Exit::kCrashed,       Exit::kInterrupted,
                                   Exit::kDiffers,  Exit::kUndecided,     Exit::kNotRun,
                                   Exit::kOk};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j < order.size(); ++j)
      EXPECT_EQ(more_urgent(order[i], order[j]), order[std::min(i, j)]);
  }
}

TEST(Rows, AverageLatencyLeavesOutTheSlowest) {
  const v1::Recipe recipe = recipe_of(R"(
    bench { id: "infer" mode: INFER drop_slowest: 2 }
    expect { id: "avg" bench: "infer" metric: "latency_mean" unit: "ms" direction: LOWER })");
  Measurements m;
  m.benches = {bench("infer", 1, 1)};
  for (auto& repeat : m.benches[0].repeats)
    repeat.step_seconds = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009, 0.010};
  EXPECT_EQ(make_rows(recipe, m)[0].measured, "4.500");
}

}  // namespace
}  // namespace reciperun
