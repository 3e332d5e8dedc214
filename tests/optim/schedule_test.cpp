#include "sdk/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sdk/base/error.h"

namespace assay::optim {
namespace {

using testing::HasSubstr;

// One line of tests/fixtures/schedules/schedules.tsv (made with NumPy by make_schedules.py there).
struct Row {
  std::string name, boundaries;
  double base, end, power, gamma, decay_steps, rate;
  int64_t warmup, total, step;
};

ScheduleConfig config_of(const Row& row) {
  ScheduleConfig config;
  config.name = row.name;
  config.warmup_steps = row.warmup;
  if (row.name == "cosine" || row.name == "polynomial") {
    config.total_steps = row.total;
    config.end_factor = row.end / row.base;
  }
  if (row.name == "polynomial") config.power = row.power;
  if (row.name == "step" || row.name == "exponential") config.gamma = row.gamma;
  if (row.name == "exponential") config.decay_steps = row.decay_steps;
  std::istringstream list(row.boundaries == "-" ? "" : row.boundaries);
  for (std::string edge; std::getline(list, edge, ',');)
    config.boundaries.push_back(std::stoll(edge));
  return config;
}

void expect_good(const ScheduleConfig& config) {
  check_config("trainer", "schedule.", config);
  check_together(config);
}

std::string error_of(const ScheduleConfig& config) {
  try {
    expect_good(with_defaults(config));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Schedule, AgreesWithTheReferenceTable) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR) + "/tests/fixtures/schedules/schedules.tsv");
  ASSERT_TRUE(file.is_open());
  std::string line;
  std::getline(file, line);
  int rows = 0;
  while (std::getline(file, line)) {
    Row row;
    std::istringstream in(line);
    in >> row.name >> row.base >> row.end >> row.warmup >> row.total >> row.power >> row.gamma >>
        row.boundaries >> row.decay_steps >> row.step >> row.rate;
    ASSERT_FALSE(in.fail()) << line;
    const ScheduleConfig config = with_defaults(config_of(row));
    expect_good(config);
    EXPECT_NEAR(row.base * schedule_factor(config, row.step), row.rate, 1e-14) << line;
    ++rows;
  }
  EXPECT_GT(rows, 200);
}

// ResNet-50 v1.5's published schedule at a global batch of 1536: 835 steps an epoch, 5 epochs of
// warm-up from 0, cosine to 0 at epoch 90. Rates by its own formula in epochs, evaluated apart.
TEST(Schedule, WarmsUpFromZeroAsTheResNet50Recipe) {
  ScheduleConfig config;
  config.name = "cosine";
  config.warmup_steps = 5 * 835;
  config.total_steps = 90 * 835;
  config.warmup_start = 0;
  config = with_defaults(config);
  expect_good(config);
  const double peak = 0.256 * 1536 / 256;
  EXPECT_EQ(schedule_factor(config, 0), 0);
  EXPECT_NEAR(peak * schedule_factor(config, 1), 0.00036790419161676646, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 4174), 1.5356320958083833, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 4175), 1.536, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 40000), 0.756527361350026, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 75149), 7.523504166329076e-10, 1e-12);
}

// Both phases of ELECTRA-base's pre-training: rates at steps, by the published formula evaluated
// apart.
TEST(Schedule, FallsByTheRootAsElectrasPretraining) {
  const auto expect_rates = [](int64_t warmup, int64_t total, double peak,
                               const std::vector<std::pair<int64_t, double>>& rates) {
    ScheduleConfig config;
    config.name = "polynomial";
    config.warmup_steps = warmup, config.total_steps = total, config.warmup_start = 0;
    config.power = 0.5;
    config = with_defaults(config);
    expect_good(config);
    for (const auto& [step, rate] : rates)
      EXPECT_NEAR(peak * schedule_factor(config, step), rate, 5e-6 * rate) << step;
  };
  expect_rates(2000, 10000, 6e-3,
               {{0, 0},
                {1, 3e-6},
                {1000, 3e-3},
                {2000, 6e-3},
                {4000, 5.19615e-3},
                {6000, 4.24264e-3},
                {9000, 2.12132e-3},
                {9999, 6.7082e-5},
                {10000, 0}});
  expect_rates(200, 933, 4e-3,
               {{0, 0}, {100, 2e-3}, {200, 4e-3}, {500, 3.07434e-3}, {930, 2.55899e-4}, {933, 0}});
}

// EfficientDet-D0 on eight A100 in 16 bits, and on 32 V100 in f32: laid over more epochs than are
// trained; the last rate is that of the step before epoch 300.
TEST(Schedule, StopsBeforeItsEndAsEfficientDet) {
  ScheduleConfig config;
  config.name = "cosine";
  config.warmup_steps = 1875, config.total_steps = 30000, config.warmup_start = 1e-4 / 2.2;
  config = with_defaults(config);
  expect_good(config);
  EXPECT_NEAR(2.2 * schedule_factor(config, 0), 1e-4, 1e-12);
  EXPECT_NEAR(2.2 * schedule_factor(config, 1), 0.00127328, 1e-12);
  EXPECT_NEAR(2.2 * schedule_factor(config, 1875), 2.2, 1e-12);
  EXPECT_NEAR(2.2 * schedule_factor(config, 22499), 0.36405, 5e-6);
  config.warmup_steps = 8460, config.total_steps = 32900, config.warmup_start = 1e-4;
  EXPECT_NEAR(schedule_factor(config, 28199), 0.08855, 6e-6);
}

TEST(Schedule, DefaultsAreThoseOfTheKind) {
  EXPECT_EQ(schedule_factor(with_defaults(ScheduleConfig{}), 7), 1);
  ScheduleConfig config;
  config.name = "step";
  config.boundaries.push_back(3);
  EXPECT_DOUBLE_EQ(schedule_factor(with_defaults(config), 3), 0.1);
  EXPECT_FALSE(with_defaults(config).power.has_value());
}

TEST(Schedule, RefusesWhatItCannotFollow) {
  ScheduleConfig config;
  config.name = "cosin";
  EXPECT_THAT(error_of(config), HasSubstr("did you mean \"cosine\"?"));
  config.name = "cosine";
  EXPECT_THAT(error_of(config), HasSubstr("schedule.total_steps is not given, expected more than"));
  config.total_steps = 10;
  EXPECT_EQ(error_of(config), "no error");
  config.warmup_steps = 10;
  EXPECT_THAT(error_of(config), HasSubstr("warmup_steps (10)"));
  config.warmup_steps = 5;
  config.warmup_start = -0.1;
  EXPECT_THAT(error_of(config), HasSubstr("schedule.warmup_start is -0.1"));
  config.warmup_start = 0.1;
  EXPECT_EQ(error_of(config), "no error");
  config.warmup_steps = 0;
  EXPECT_THAT(error_of(config), HasSubstr("expected 1 or more with warmup_start"));
  ScheduleConfig step;
  step.name = "step";
  EXPECT_THAT(error_of(step), HasSubstr("schedule.boundaries is not given"));
  step.boundaries.push_back(5);
  step.boundaries.push_back(3);
  EXPECT_THAT(error_of(step), HasSubstr("schedule.boundaries is unordered"));
}

TEST(Schedule, RefusesKeysOfOtherKindsAndAMissingName) {
  ScheduleConfig config;
  config.warmup_steps = 5;
  EXPECT_THAT(error_of(config), HasSubstr("schedule.name is not given"));
  config.name = "constant";
  EXPECT_EQ(error_of(config), "no error");
  config.total_steps = 100;
  EXPECT_THAT(error_of(config),
              HasSubstr("schedule.total_steps belongs to polynomial or cosine, not to constant"));
  config.total_steps.reset();
  config.boundaries.push_back(3);
  EXPECT_THAT(error_of(config), HasSubstr("schedule.boundaries belongs to step"));
}

// ELECTRA's first code: the rate has dropped by the share of the warm-up where that ends.
TEST(Schedule, FallsAsIfThereWereNoWarmup) {
  ScheduleConfig config;
  config.name = "polynomial";
  config.warmup_steps = 34, config.total_steps = 693, config.warmup_start = 0;
  config.decay_from_start = true;
  config = with_defaults(config);
  expect_good(config);
  EXPECT_DOUBLE_EQ(schedule_factor(config, 17), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor(config, 34), 1 - 34.0 / 693);
  EXPECT_DOUBLE_EQ(schedule_factor(config, 346), 1 - 346.0 / 693);
  EXPECT_DOUBLE_EQ(schedule_factor(config, 693), 0);
  config.decay_from_start = false;
  EXPECT_DOUBLE_EQ(schedule_factor(config, 34), 1);
  ScheduleConfig constant;
  constant.name = "constant", constant.decay_from_start = true;
  EXPECT_THAT(error_of(constant), HasSubstr("decay_from_start"));
}

}  // namespace
}  // namespace assay::optim
