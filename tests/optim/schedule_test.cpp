#include "sdk/optim/schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sdk/base/error.h"

namespace assay::optim {
namespace {

// One line of tests/fixtures/schedules/schedules.tsv (made with NumPy by make_schedules.py there).
struct Row {
  std::string name, boundaries;
  double base, end, power, gamma, decay_steps, rate;
  int64_t warmup, total, step;
};

ScheduleConfig config_of(const Row& row) {
  ScheduleConfig config;
  config.set_name(row.name);
  config.set_warmup_steps(row.warmup);
  config.set_total_steps(row.total);
  config.set_end_factor(row.end / row.base);
  config.set_power(row.power);
  config.set_gamma(row.gamma);
  config.set_decay_steps(row.decay_steps);
  std::istringstream list(row.boundaries == "-" ? "" : row.boundaries);
  for (std::string edge; std::getline(list, edge, ',');) config.add_boundaries(std::stoll(edge));
  return config;
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
    const ScheduleConfig config = config_of(row);
    check_schedule(config);
    EXPECT_NEAR(row.base * schedule_factor(config, row.step), row.rate, 1e-14) << line;
    ++rows;
  }
  EXPECT_GT(rows, 200);
}

// ResNet-50 v1.5's published schedule at a global batch of 1536: 835 steps an epoch, 5 epochs of
// warm-up from 0, cosine to 0 at epoch 90. Rates by its own formula in epochs, evaluated apart.
TEST(Schedule, WarmsUpFromZeroAsTheResNet50Recipe) {
  ScheduleConfig config;
  config.set_name("cosine");
  config.set_warmup_steps(5 * 835);
  config.set_total_steps(90 * 835);
  config.set_warmup_start(0);
  check_schedule(config);
  const double peak = 0.256 * 1536 / 256;
  EXPECT_EQ(schedule_factor(config, 0), 0);
  EXPECT_NEAR(peak * schedule_factor(config, 1), 0.00036790419161676646, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 4174), 1.5356320958083833, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 4175), 1.536, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 40000), 0.756527361350026, 1e-12);
  EXPECT_NEAR(peak * schedule_factor(config, 75149), 7.523504166329076e-10, 1e-12);
}

TEST(Schedule, RefusesWhatItCannotFollow) {
  ScheduleConfig config;
  config.set_name("cosin");
  EXPECT_THROW(check_schedule(config), Error);
  config.set_name("cosine");  // without total_steps
  EXPECT_THROW(check_schedule(config), Error);
  config.set_total_steps(10);
  EXPECT_NO_THROW(check_schedule(config));
  config.set_warmup_steps(10);
  EXPECT_THROW(check_schedule(config), Error);
  config.set_warmup_steps(5);
  config.set_warmup_start(-0.1);
  EXPECT_THROW(check_schedule(config), Error);
  config.set_warmup_start(0.1);
  EXPECT_NO_THROW(check_schedule(config));
  config.set_warmup_steps(0);  // a start without a warm-up
  EXPECT_THROW(check_schedule(config), Error);
  ScheduleConfig step;
  step.set_name("step");
  EXPECT_THROW(check_schedule(step), Error);
  step.add_boundaries(5);
  step.add_boundaries(3);
  EXPECT_THROW(check_schedule(step), Error);
}

}  // namespace
}  // namespace assay::optim
