// The noise gate: each disturbance is noticed by its own check and by no other.
#include "tools/recipe_run/stats/noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace reciperun {
namespace {

double noise(int i) { return std::fmod(std::abs(std::sin(i * 12.9898) * 43758.5453), 1.0) - 0.5; }

// 400 steps of 10 ms with 0.5 % of noise, changed by `disturb`.
template <class F>
std::vector<double> steps(F disturb) {
  std::vector<double> out;
  for (int i = 0; i < 400; ++i) out.push_back(disturb(i, 0.010 * (1 + 0.01 * noise(i))));
  return out;
}

NoiseLevel level_of(const std::vector<NoiseCheck>& checks, const std::string& name) {
  for (const NoiseCheck& check : checks) {
    if (check.name == name) return check.level;
  }
  ADD_FAILURE() << "no check " << name;
  return NoiseLevel::kQuiet;
}

TEST(NoiseGate, QuietStepsPass) {
  EXPECT_EQ(worst(step_checks(steps([](int, double t) { return t; }))), NoiseLevel::kQuiet);
  EXPECT_EQ(noise_text(step_checks(steps([](int, double t) { return t; }))), "");
}

TEST(NoiseGate, Drift) {
  const auto checks = step_checks(steps([](int i, double t) { return t * (1 + 0.05 * i / 400); }));
  EXPECT_EQ(level_of(checks, "drift"), NoiseLevel::kBlock);
  EXPECT_THAT(noise_text(checks), ::testing::HasSubstr("drift 4."));
  const auto slight = step_checks(steps([](int i, double t) { return t * (1 + 0.02 * i / 400); }));
  EXPECT_EQ(level_of(slight, "drift"), NoiseLevel::kWarn);
}

TEST(NoiseGate, ATrendIsToldFromChance) {
  const auto first = [](double slope) {
    const std::vector<double> all =
        steps([&](int i, double t) { return t * (1 + slope * i / 20); });
    return std::vector<double>(all.begin(), all.begin() + 20);
  };
  EXPECT_FALSE(has_trend(first(0)));
  EXPECT_TRUE(has_trend(first(-0.2)));
  EXPECT_TRUE(has_trend(first(0.2)));
  EXPECT_FALSE(has_trend(std::vector<double>(20, 1.0)));
  EXPECT_FALSE(has_trend({}));
}

// Every fifth step of a device that synchronises then takes a tenth longer; or all steps but a few
// are equal to the clock's last digit.
TEST(NoiseGate, AQuietMachineIsNotHeldToItsOwnQuiet) {
  const auto every_fifth =
      step_checks(steps([](int i, double) { return i % 5 == 0 ? 0.0011 : 0.0010; }));
  EXPECT_EQ(level_of(every_fifth, "tail"), NoiseLevel::kQuiet);
  EXPECT_EQ(level_of(every_fifth, "two modes"), NoiseLevel::kWarn);
  EXPECT_EQ(worst(every_fifth), NoiseLevel::kWarn);
  const auto slightly =
      step_checks(steps([](int i, double) { return i % 15 == 0 ? 0.001015 : 0.0010; }));
  EXPECT_EQ(level_of(slightly, "tail"), NoiseLevel::kQuiet);
  const auto beyond =
      step_checks(steps([](int i, double) { return i % 15 == 0 ? 0.0015 : 0.0010; }));
  EXPECT_EQ(level_of(beyond, "tail"), NoiseLevel::kBlock);
}

TEST(NoiseGate, TailDoesNotLookLikeSpread) {
  const auto checks = step_checks(steps([](int i, double t) { return i % 50 == 7 ? 3 * t : t; }));
  EXPECT_EQ(level_of(checks, "tail"), NoiseLevel::kWarn);
  EXPECT_EQ(level_of(checks, "step spread"), NoiseLevel::kQuiet);
  const auto bad = step_checks(steps([](int i, double t) { return i % 10 == 7 ? 3 * t : t; }));
  EXPECT_EQ(level_of(bad, "tail"), NoiseLevel::kBlock);
}

TEST(NoiseGate, TwoModesWarnAndNeverBlock) {
  const auto checks = step_checks(steps([](int i, double t) { return i % 3 == 0 ? 1.3 * t : t; }));
  EXPECT_EQ(level_of(checks, "two modes"), NoiseLevel::kWarn);
  const TwoModes modes = two_means(steps([](int i, double t) { return i % 3 == 0 ? 1.3 * t : t; }));
  EXPECT_NEAR(modes.low, 0.010, 1e-4);
  EXPECT_NEAR(modes.high, 0.013, 1e-4);
  EXPECT_NEAR(modes.minor_fraction, 1.0 / 3, 0.01);
}

TEST(NoiseGate, SpreadRepeatsAndHost) {
  const auto wide =
      step_checks(steps([](int i, double t) { return t * (1 + 0.4 * noise(7 * i + 1)); }));
  EXPECT_EQ(level_of(wide, "step spread"), NoiseLevel::kBlock);
  EXPECT_EQ(repeat_check(std::vector<double>{100, 101}).level, NoiseLevel::kQuiet);
  EXPECT_EQ(repeat_check(std::vector<double>{100, 103}).level, NoiseLevel::kWarn);
  EXPECT_EQ(repeat_check(std::vector<double>{100, 106}).level, NoiseLevel::kBlock);
  EXPECT_EQ(worst(host_checks({0.06, 0, 0})), NoiseLevel::kBlock);
  EXPECT_EQ(worst(host_checks({0, 0.005, 0})), NoiseLevel::kWarn);
  EXPECT_EQ(worst(host_checks({0, 0, 0.5})), NoiseLevel::kWarn);
  EXPECT_TRUE(host_checks({}).empty());
  // Waiting for a CPU counts as far as others can have caused it.
  EXPECT_EQ(worst(host_checks({0, 0, 0.0, 0.9})), NoiseLevel::kQuiet) << "our own threads";
  EXPECT_EQ(worst(host_checks({0, 0, 0.5, 0.3})), NoiseLevel::kBlock) << "a CPU burner";
  EXPECT_EQ(probe_check(std::vector<double>{1.0, 1.005}).level, NoiseLevel::kQuiet);
  EXPECT_EQ(probe_check(std::vector<double>{1.0, 1.02}).level, NoiseLevel::kWarn);
  EXPECT_EQ(probe_check(std::vector<double>{1.04, 1.0}).level, NoiseLevel::kBlock);
}

TEST(NoiseGate, TheilSenIgnoresOutliers) {
  std::vector<double> line;
  for (int i = 0; i < 101; ++i) line.push_back(i % 10 == 0 ? 1e6 : 2.0 * i);
  EXPECT_NEAR(theil_sen_slope(line), 2, 1e-9);
  EXPECT_NEAR(scaled_mad(std::vector<double>{1, 2, 3, 4, 1000}), 1.4826, 1e-9);
}

}  // namespace
}  // namespace reciperun
