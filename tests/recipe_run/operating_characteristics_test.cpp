// What the verdict rules do on average, both sides drawn anew many times: every line of the table
// of operating characteristics, what plans promise, and how often a whole report raises a false
// alarm.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "tools/recipe_run/judge/rehearsal.h"
#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/stats/looks.h"

namespace reciperun {
namespace {

constexpr int kDraws = 60'000;
constexpr double kMargin = 0.30;

using Shares =
    std::array<double, 4>;  // REPRODUCED; WITHIN TOLERANCE or CONSISTENT; INCONCLUSIVE; DIFFERS

struct System {
  const char* name;
  double sd;
  int published_n;
};
const System kElectra{"ELECTRA EM", 0.169, 5};
const System kEfficientDet{"EfficientDet", 0.0994, 5};
const System kResnet{"ResNet-50", 0.098, 8};

size_t column(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return 0;
    case Verdict::kWithinTolerance:
    case Verdict::kConsistent:
      return 1;
    case Verdict::kInconclusive:
      return 2;
    default:
      return 3;
  }
}

Shares simulate(const System& system, int own_n, double true_delta) {
  Tolerance tolerance;
  tolerance.margin = kMargin;
  std::mt19937_64 random(20'221'000);
  std::normal_distribution<double> normal(0, system.sd);
  const auto draw = [&](int n, double mean) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(normal(random) + mean);
    return summarise(values);
  };
  Shares shares{};
  for (int i = 0; i < kDraws; ++i) {
    const Summary published = draw(system.published_n, 0);
    const Summary own = draw(own_n, true_delta);
    const Judgement j = own_n == 1 ? judge_single_run(published, own.mean, tolerance)
                                   : judge_means(published, own, tolerance);
    shares[column(j.verdict)] += 1.0 / kDraws;
  }
  return shares;
}

struct Case {
  System system;
  int own_n;
  double true_delta;
  Shares printed;
};

// The name is GoogleTest's. NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.system.name << ", " << c.own_n << " runs, off by " << c.true_delta;
}

class OperatingCharacteristics : public ::testing::TestWithParam<Case> {};

TEST_P(OperatingCharacteristics, MatchThePrintedTable) {
  const Case& c = GetParam();
  const Shares got = simulate(c.system, c.own_n, c.true_delta);
  for (size_t i = 0; i < got.size(); ++i) {
    // Half a unit of the printed digit, and three standard errors of the two simulations together.
    const double monte_carlo = 3 * std::sqrt(2 * c.printed[i] * (1 - c.printed[i]) / kDraws);
    EXPECT_NEAR(got[i], c.printed[i], 0.005 + std::max(monte_carlo, 0.001)) << "column " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, OperatingCharacteristics,
    ::testing::Values(
        Case{kElectra, 1, 0, {0, .97, .02, .01}}, Case{kElectra, 1, -0.3, {0, .78, .16, .06}},
        Case{kElectra, 1, -0.6, {0, .31, .40, .29}}, Case{kElectra, 3, 0, {.38, .61, .01, .01}},
        Case{kElectra, 3, -0.3, {.05, .45, .15, .35}}, Case{kElectra, 3, -0.6, {0, .01, .09, .91}},
        Case{kElectra, 8, 0, {.76, .24, 0, 0}}, Case{kElectra, 8, -0.3, {.05, .46, .01, .49}},
        Case{kElectra, 8, -0.6, {0, 0, 0, 1}}, Case{kEfficientDet, 3, 0, {.89, .12, 0, 0}},
        Case{kEfficientDet, 3, -0.3, {.05, .46, .03, .47}},
        Case{kEfficientDet, 3, -0.6, {0, 0, 0, 1}}, Case{kResnet, 3, 0, {.91, .09, 0, 0}},
        Case{kResnet, 3, -0.3, {.05, .45, .04, .47}}, Case{kResnet, 3, -0.6, {0, 0, 0, 1}}),
    [](const auto& line) { return "Line" + std::to_string(line.index + 1); });

// Draws of a system whose runs scatter by `sd`.
class Draws {
 public:
  explicit Draws(double sd) : normal_(0, sd) {}
  std::vector<double> runs(int n) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(77 + normal_(random_));
    return values;
  }

 private:
  std::mt19937_64 random_{4711};
  std::normal_distribution<double> normal_;
};

v1::Recipe recipe_of(const std::vector<double>& published, uint32_t count, uint32_t max_count) {
  v1::Recipe recipe;
  recipe.mutable_trials()->set_count(count);
  recipe.mutable_trials()->set_max_count(max_count);
  v1::Expect& e = *recipe.add_expect();
  e.set_id("top1");
  e.set_metric("top1");
  e.set_unit("%");
  e.set_direction(v1::Expect::HIGHER);
  e.mutable_margin()->set_absolute(kMargin);
  for (const double v : published) e.mutable_sample()->add_v(v);
  return recipe;
}

// What a report says after the first look at `own`.
Verdict reported(const v1::Recipe& recipe, const std::vector<double>& own) {
  Measurements m;
  for (size_t i = 0; i < own.size(); ++i) {
    Trial trial;
    trial.seed = i;
    trial.metrics["top1"] = own[i] / 100;
    m.trials.push_back(trial);
  }
  const uint32_t n = recipe.trials().count();
  m.level = level_at({}, n, recipe.trials().max_count() > n);
  return make_rows(recipe, m)[0].judgement.verdict;
}

struct Promise {
  System system;
  int own_n;
  double simulated;  // P(REPRODUCED) of equal systems at the first of three looks
};

// The name is GoogleTest's. NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Promise& p, std::ostream* out) {
  *out << p.system.name << ", " << p.own_n << " runs";
}

class Promises : public ::testing::TestWithParam<Promise> {};

// A plan's probability, an independent simulation of the whole way from runs to rows, and the
// numbers of a third one (SciPy, 100,000 draws each) agree.
TEST_P(Promises, AreWhatRunsDeliver) {
  const auto& [system, own_n, simulated] = GetParam();
  constexpr int kReports = 20'000;
  Draws draws(system.sd);
  const auto count = static_cast<uint32_t>(own_n);
  double delivered = 0;
  for (int i = 0; i < kReports; ++i) {
    const v1::Recipe recipe = recipe_of(draws.runs(system.published_n), count, count + 5);
    delivered += (reported(recipe, draws.runs(own_n)) == Verdict::kReproduced) / double{kReports};
  }
  EXPECT_NEAR(delivered, simulated, 0.015);
  // Published runs with exactly the system's spread.
  std::vector<double> published;
  for (int i = 0; i < system.published_n; ++i) published.push_back(i);
  const double unit = summarise(published).sd;
  for (double& v : published) v = 77 + v * system.sd / unit;
  const v1::Recipe recipe = recipe_of(published, count, count + 5);
  const auto chance = chance_of_reproduced(recipe, recipe.expect(0), count);
  ASSERT_TRUE(chance.has_value());
  EXPECT_NEAR(chance->at_once, delivered, 0.025);
  EXPECT_GT(chance->with_top_up, chance->at_once);
}

INSTANTIATE_TEST_SUITE_P(FirstLook, Promises,
                         ::testing::Values(Promise{kElectra, 5, 0.32}, Promise{kElectra, 3, 0.17},
                                           Promise{kEfficientDet, 3, 0.66},
                                           Promise{kResnet, 3, 0.71}));

// The chance that a report of so many rows, all of equal systems, has a DIFFERS.
double false_alarms(double sd, int rows) {
  constexpr int kReports = 4000;
  Draws draws(sd);
  Tolerance t;
  t.margin = kMargin;
  double alarms = 0;
  for (int i = 0; i < kReports; ++i) {
    std::vector<Judgement> judgements;
    std::vector<Judgement*> all;
    for (int row = 0; row < rows; ++row)
      judgements.push_back(judge_means(summarise(draws.runs(5)), summarise(draws.runs(3)), t));
    for (Judgement& j : judgements) all.push_back(&j);
    correct_for_many_rows(all);
    bool alarm = false;
    for (const Judgement& j : judgements) alarm = alarm || column(j.verdict) == 3;
    alarms += alarm / double{kReports};
  }
  return alarms;
}

TEST(FamilyWiseError, OfAWholeReportIsBelowFivePerCent) {
  for (const double sd : {0.169, 0.25}) {
    for (const int rows : {1, 5, 20}) EXPECT_LT(false_alarms(sd, rows), 0.05) << sd << " " << rows;
  }
}

// Three looks with a top-up while undecided: P(DIFFERS) of equal systems.
TEST(FamilyWiseError, OfThreeLooksIsBelowFivePerCent) {
  constexpr int kRuns = 20'000;
  for (const double sd : {0.25, 0.4}) {
    Draws draws(sd);
    double alarms = 0;
    for (int i = 0; i < kRuns; ++i) {
      const Summary published = summarise(draws.runs(5));
      const std::vector<double> own = draws.runs(10);
      const std::vector<uint32_t> looks = planned_looks(5, 10);
      for (size_t look = 0; look < looks.size(); ++look) {
        Tolerance t;
        t.margin = kMargin;
        t.level = level_of_look(static_cast<int>(look));
        const Judgement j = judge_means(published, summarise(std::span(own).first(looks[look])), t);
        alarms += (column(j.verdict) == 3) / double{kRuns};
        if (!j.more_runs_help) break;
      }
    }
    EXPECT_LT(alarms, 0.05) << sd;
    EXPECT_GT(alarms, 0.005) << sd << ": the test draws no differences at all";
  }
}

}  // namespace
}  // namespace reciperun
