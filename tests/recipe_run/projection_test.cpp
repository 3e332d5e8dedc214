// Time to train projected from published throughputs, against the published times: no constant is
// fitted. Items are steps x global batch; rates are those of the same documents' throughput tables.
#include "tools/recipe_run/judge/row_kinds.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reciperun {
namespace {

constexpr double kHour = 3600;

double projected(const std::vector<PhaseRate>& phases) { return project_time(phases).value; }

PhaseRate phase(double items, double rate) { return {items, rate, {rate, rate}}; }

// Two phases: 10,000 steps of 67,584 sequences of 128, then 933 of 27,648 of 512.
double electra_hours(double rate128, double rate512) {
  return projected({phase(10000.0 * 67584, rate128), phase(933.0 * 27648, rate512)}) / kHour;
}

TEST(Projection, ElectraPreTraining) {
  struct Row {
    double rate128, rate512, computed, published;
  };
  for (const Row& row : {Row{7512, 1347, 30.31, 30.47}, Row{4202, 716, 54.68, 54.84},
                         Row{3475, 656, 64.95, 65.1}, Row{920, 190, 241.58, 241.8},
                         Row{7773, 1506, 28.91, 29.08}, Row{2018, 426, 109.85, 109.97}}) {
    const double hours = electra_hours(row.rate128, row.rate512);
    // The table's DGX-1 FP32 value was computed with slightly different counts: 0.1 %.
    EXPECT_NEAR(hours / row.computed, 1, 0.001) << row.published;
    EXPECT_NEAR(hours / row.published, 1, 0.0065) << row.published;
  }
}

TEST(Projection, ImageSystems) {
  const double imagenet = 90 * 1281167.0;
  EXPECT_NEAR(projected({phase(imagenet, 10723)}) / kHour, 2.99, 0.005);
  EXPECT_NEAR(projected({phase(imagenet, 5357)}) / kHour, 5.98, 0.005);
  EXPECT_NEAR(projected({phase(imagenet, 1376)}) / kHour, 23.3, 0.05);
  EXPECT_NEAR(projected({phase(imagenet, 26673.72)}) / kHour, 1.20, 0.005);
  EXPECT_NEAR(projected({phase(imagenet, 3410.52)}) / kHour, 9.39, 0.005);
  const double coco = 300 * 120000.0;
  EXPECT_NEAR(projected({phase(coco, 777)}) / kHour, 12.9, 0.05);
  EXPECT_NEAR(projected({phase(coco, 645)}) / kHour, 15.5, 0.05);
  const double slices = 6400 * 8.0;
  EXPECT_NEAR(projected({phase(slices, 18.85)}) / 60, 45.3, 0.05);
  EXPECT_NEAR(projected({phase(slices, 60.28)}) / 60, 14.2, 0.05);
}

TEST(Projection, SquadFineTuning) {
  const double windows = 2 * 88614.0;
  EXPECT_NEAR(projected({phase(windows, 1051)}), 168, 1);
  EXPECT_NEAR(projected({phase(windows, 268)}), 661, 1);
}

TEST(Projection, IntervalAndNonsense) {
  const Projection p = project_time({{1000, 10, {8, 12.5}}, {20, 1, {1, 1}}});
  EXPECT_DOUBLE_EQ(p.value, 100 + 20);
  EXPECT_DOUBLE_EQ(p.interval.lower, (80 + 20) * 0.98);
  EXPECT_DOUBLE_EQ(p.interval.upper, (125 + 20) * 1.02);
  EXPECT_THROW(project_time({{1000, 0, {0, 0}}}), std::domain_error);
}

}  // namespace
}  // namespace reciperun
