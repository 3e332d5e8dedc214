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
  ScheduleConfig step;
  step.set_name("step");
  EXPECT_THROW(check_schedule(step), Error);
  step.add_boundaries(5);
  step.add_boundaries(3);
  EXPECT_THROW(check_schedule(step), Error);
}

}  // namespace
}  // namespace assay::optim
