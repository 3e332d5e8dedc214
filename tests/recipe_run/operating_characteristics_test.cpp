// What the verdict rules do on average: both sides drawn anew 60,000 times, every line of the
// published table of operating characteristics.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "tools/recipe_run/verdict/rules.h"

namespace reciperun {
namespace {

constexpr int kDraws = 60'000;
constexpr double kMargin = 0.30;

using Shares = std::array<double, 4>;  // REPRODUCED, WITHIN TOLERANCE, INCONCLUSIVE, DIFFERS

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
        Case{kElectra, 1, 0, {0, .95, .04, .01}}, Case{kElectra, 1, -0.3, {0, .76, .17, .07}},
        Case{kElectra, 1, -0.6, {0, .31, .40, .29}}, Case{kElectra, 3, 0, {.38, .61, .01, .01}},
        Case{kElectra, 3, -0.3, {.05, .45, .15, .35}}, Case{kElectra, 3, -0.6, {0, .01, .09, .91}},
        Case{kElectra, 8, 0, {.76, .24, 0, 0}}, Case{kElectra, 8, -0.3, {.05, .46, .01, .49}},
        Case{kElectra, 8, -0.6, {0, 0, 0, 1}}, Case{kEfficientDet, 3, 0, {.89, .12, 0, 0}},
        Case{kEfficientDet, 3, -0.3, {.05, .46, .03, .47}},
        Case{kEfficientDet, 3, -0.6, {0, 0, 0, 1}}, Case{kResnet, 3, 0, {.91, .09, 0, 0}},
        Case{kResnet, 3, -0.3, {.05, .45, .04, .47}}, Case{kResnet, 3, -0.6, {0, 0, 0, 1}}),
    [](const auto& line) { return "Line" + std::to_string(line.index + 1); });

}  // namespace
}  // namespace reciperun
