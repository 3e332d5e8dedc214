// The detector's recipes on 80 images of COCO, as `recipe-run run` has it. Minutes.
#include <assay/assay_data.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/data/coco_files.h"
#include "tests/recipe_run/real_engine.h"
#include "tools/recipe_run/assay/objects.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";

class DetectorOnCoco : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!assay::test::has_coco()) return;
    root_ = fs::path(::testing::TempDir()) / ("detection_slow_" + std::to_string(getpid()));
    assay_context* made = nullptr;
    call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &made);
    const engine::Context context(made);
    const std::string from = assay::test::coco_archive(), to = (root_ / "data/coco").string();
    call(Exit::kCrashed, assay_dataset_convert, context.get(), text("coco"), text(from), text(to),
         text(""), nullptr, uintptr_t{0}, nullptr);
    fs::create_directory_symlink("coco", root_ / "data/coco_2017");
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }
  void SetUp() override {
    if (!assay::test::has_coco()) GTEST_SKIP() << assay::test::sample_data() << " is not there";
  }

  static Report report_of(const std::string& id, bool smoke) {
    return ran(root_, id, {}, smoke).report;
  }

  static fs::path root_;
};
fs::path DetectorOnCoco::root_;

// PyTorch reaches the same (tests/fixtures/models/overfit_efficientdet.py).
TEST_F(DetectorOnCoco, EightImagesByHeart) {
  const Report report = report_of("efficientdet_d0/overfit_8", false);
  ASSERT_EQ(report.measurements.trials.size(), 1u);
  const auto& metrics = report.measurements.trials[0].metrics;
  EXPECT_GE(metrics.at("AP"), 0.5);
  EXPECT_GE(metrics.at("AP50"), 0.7);
  EXPECT_GE(metrics.at("AR_large"), 0.8);
}

TEST_F(DetectorOnCoco, EveryPublishedRecipeTriesAFewSteps) {
  int run = 0;
  for (const std::string& id : recipe_ids(kRecipes)) {
    if (!id.starts_with("efficientdet_d0/dgx")) continue;
    SCOPED_TRACE(id);
    const Report report = report_of(id, true);
    EXPECT_FALSE(report.rows.empty());
    for (const Row& row : report.rows) {
      EXPECT_TRUE(row.judgement.verdict == Verdict::kNotComparable ||
                  row.judgement.verdict == Verdict::kNotRun)
          << row.id;
    }
    EXPECT_THAT(smoke_line(report), AnyOf(HasSubstr("It trains: "), HasSubstr("It runs: ")));
    ++run;
  }
  EXPECT_EQ(run, 10);
}

}  // namespace
}  // namespace reciperun
