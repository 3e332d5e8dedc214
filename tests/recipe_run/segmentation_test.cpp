// U-Net through the driver, on made-up slices: folds, evaluation, resuming, emulated devices,
// pictures.
#include <assay/assay_data.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/harness/micrographs.h"
#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/assay/folds.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/pictures.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::HasSubstr;

using assay::test::kSide;
using assay::test::kSlices;
using assay::test::make_pages;

engine::Context new_context(decltype(assay_host::read_image) read_image) {
  assay_host host{};
  host.struct_size = sizeof host;
  host.read_image = read_image;
  assay_context* context = nullptr;
  call(Exit::kCrashed, assay_context_create, nullptr, &host, nullptr, size_t{0}, &context);
  return engine::Context(context);
}

class SegmentationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::path(::testing::TempDir()) / ("segmentation_" + std::to_string(getpid()));
    create_folders(root_ / "source");
    write_file_atomic(root_ / "source/train-volume.tif", "images");
    write_file_atomic(root_ / "source/train-labels.tif", "masks");
    convert(root_ / "source", root_ / "isbi2012_em");
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static void convert(const fs::path& source, const fs::path& folder) {
    const engine::Context context = new_context(make_pages);
    const std::string from = source.string(), to = folder.string();
    call(Exit::kCrashed, assay_dataset_convert, context.get(), text("isbi2012_em"), text(from),
         text(to), text(""), nullptr, uintptr_t{0}, nullptr);
  }

  static v1::Recipe recipe(uint32_t devices = 1) {
    const std::string folds = R"(folds { k: 3 splitter: "rotate_then_cut" stride: 4 train_count: 8
      shuffle_seed: 0 shuffle_algorithm: "mt19937-fisher-yates-legacy" })";
    const std::string sizes = R"(
      pipeline { op: "scale" arg { key: "by" value: "0.0078125" } arg { key: "offset" value: "-1" } }
      pipeline { op: "resize" arg { key: "to" value: "[16, 16]" } arg { key: "filter" value: "bilinear_legacy" } }
      pipeline { op: "pad" arg { key: "to" value: "[32, 32]" } arg { key: "value" value: "0" } })";
    v1::Recipe recipe;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(id: "test/unet" model { arch: "unet_medical" init: "glorot_uniform"
             hparam { key: "image" value: "[32, 32, 1]" } hparam { key: "width" value: "3" } hparam { key: "depth" value: "1" } }
           data { id: "train" role: "train" lock: "isbi2012_em" split: "train" expect_samples: 12 )" +
            folds +
            R"( pipeline { op: "shuffle_stream" arg { key: "buffer_batches" value: "3" } } )" +
            sizes + R"( pipeline { op: "random_flip" arg { key: "axis" value: "horizontal" } } }
           data { id: "validation" role: "validation" lock: "isbi2012_em" split: "train" )" +
            folds + sizes + R"( }
           training { steps: 160 steps_divided_by_devices: true batch_per_device: 2
             optimizer { name: "adam" lr: 0.01 convention: "tensorflow" } schedule { kind: "constant" } }
           trials { unit: "fold" seed: [0, 1, 2] count: 3 }
           evaluation { metric: "dice" metric: "loss" when: "end" batch: 8 select: MEAN_OVER_FOLDS }
           topology { devices_per_node: )" +
            std::to_string(devices) + R"( } io { data_root: ")" + root_.string() +
            R"(" workers: 1 })",
        &recipe));
    return recipe;
  }

  static auto evaluate(TrainingTrial& trial) {
    return trial.evaluate({}, [](double) { return true; }).metric();
  }

  static fs::path root_;
  std::unique_ptr<TrainerDriver> driver_ = make_assay_driver("cpu", 1);
};
fs::path SegmentationTest::root_;

TEST_F(SegmentationTest, LearnsAFold) {
  const v1::Recipe made = recipe();
  driver_->check(made);
  const auto trial = driver_->start(made, 1);
  EXPECT_EQ(trial->total_steps(), 160);
  const auto before = evaluate(*trial);
  EXPECT_NEAR(before.at("loss"), before.at("cross_entropy") + 1 - before.at("dice"), 1e-6);
  EXPECT_LT(before.at("dice"), 0.75);
  StepResult last;
  while (trial->step() < trial->total_steps()) last = trial->run_step();
  EXPECT_EQ(last.samples, 320);
  EXPECT_GT(evaluate(*trial).at("dice"), 0.85);
}

TEST_F(SegmentationTest, FoldsHoldOutOtherSlicesAndStartAlike) {
  const v1::Recipe made = recipe();
  const auto first = driver_->start(made, 0), second = driver_->start(made, 1);
  // Same first weights (seed 0), other slices.
  EXPECT_NE(evaluate(*first).at("loss"), evaluate(*second).at("loss"));
  const auto again = driver_->start(made, 0);
  EXPECT_EQ(evaluate(*first).at("loss"), evaluate(*again).at("loss"));
  const auto other_seed = driver_->start(made, 3);  // fold 0, seed 1
  EXPECT_NE(evaluate(*first).at("loss"), evaluate(*other_seed).at("loss"));
}

// Eight devices played in turn: an eighth of the steps, eight times the samples, and the same bits
// whether or not it was interrupted in between.
TEST_F(SegmentationTest, EmulatedDevicesResumeBitForBit) {
  const v1::Recipe made = recipe(8);
  driver_->emulate(made, 8);
  driver_->check(made);
  const auto whole = driver_->start(made, 2);
  EXPECT_EQ(whole->total_steps(), 20);
  EXPECT_EQ(whole->run_step().samples, 16);
  whole->run_step();
  const fs::path file = root_ / "checkpoint";
  whole->save(file);
  const double expected = (whole->run_step(), whole->run_step().loss);
  const auto resumed = driver_->resume(made, 2, file);
  EXPECT_EQ(resumed->step(), 2);
  EXPECT_EQ((resumed->run_step(), resumed->run_step().loss), expected);
}

// A batch of three and one of one weigh the same, as the published scripts have it.
TEST_F(SegmentationTest, EvaluationBatchesWeighTheSame) {
  const auto scores = [&](uint32_t batch, uint32_t batches) {
    v1::Recipe made = recipe();
    made.mutable_evaluation()->set_batch(batch);
    made.mutable_evaluation()->set_batches(batches);
    const auto trial = driver_->start(made, 0);
    while (trial->step() < 20) trial->run_step();
    return evaluate(*trial);
  };
  const auto all = scores(4, 0), three = scores(3, 1), together = scores(3, 0);
  for (const char* metric : {"dice", "cross_entropy", "loss"}) {
    const double last = 4 * all.at(metric) - 3 * three.at(metric);  // the slice that is left
    EXPECT_GT(std::abs(last - three.at(metric)), 1e-4) << "no difference to be seen";
    EXPECT_NEAR(together.at(metric), (three.at(metric) + last) / 2, 3e-6) << metric;
  }
}

// What eight ranks would report of a step: every device has one slice, twice in its batch, and
// their losses at the first weights are those of an evaluation that holds out just these slices.
TEST_F(SegmentationTest, EmulatedDevicesReportTheirMeanLoss) {
  v1::Recipe made = recipe(8);
  (*made.mutable_model()->mutable_hparam())["dropout"] = "0";
  auto& pipeline = *made.mutable_data(0)->mutable_pipeline();
  pipeline.RemoveLast();  // the flip
  v1::Recipe inverse = recipe();
  for (v1::DataRef& data : *inverse.mutable_data()) data.mutable_folds()->set_train_count(4);
  const auto expected = evaluate(*driver_->start(inverse, 1));
  driver_->emulate(made, 8);
  EXPECT_NEAR(driver_->start(made, 0)->run_step().loss, expected.at("loss"), 1e-5);
}

std::string refusal(const std::function<void()>& action, Exit code = Exit::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

TEST_F(SegmentationTest, DevicesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal([&] { driver_->check(recipe(8)); }), HasSubstr("--emulate-devices 8"));
  EXPECT_THAT(refusal([&] { driver_->emulate(recipe(8), 4); }), HasSubstr("trains on 8 devices"));
  v1::Recipe many = recipe();
  for (v1::DataRef& data : *many.mutable_data()) data.mutable_folds()->set_train_count(12);
  EXPECT_THAT(refusal([&] { driver_->check(many); }), HasSubstr("would be empty"));
}

TEST_F(SegmentationTest, DataThatWouldMakeNonsenseOfTheScoreAreRefused) {
  v1::Recipe overlapping = recipe();
  overlapping.mutable_data(0)->mutable_folds()->set_stride(3);
  EXPECT_THAT(refusal([&] { driver_->check(overlapping); }),
              HasSubstr("data.train.folds and data.validation.folds differ"));
  v1::Recipe timed = recipe();
  *timed.add_data() = timed.data(1);
  v1::DataRef& test = *timed.mutable_data(2);
  test.set_id("test"), test.set_role("bench"), test.set_split("test"), test.clear_folds();
  EXPECT_THAT(refusal([&] { driver_->check(timed); }, Exit::kDataMismatch),
              AllOf(HasSubstr("data 'test': "), HasSubstr("has no split 'test'"),
                    HasSubstr("--set data.test.split=train")));
  test.set_split("train"), test.clear_pipeline();
  EXPECT_THAT(refusal([&] { driver_->check(timed); }),
              HasSubstr("data.test.pipeline has no step 'scale'"));
}

TEST_F(SegmentationTest, SlicesWithoutMasksAreNotEvaluatedOn) {
  fs::copy(root_ / "source", root_ / "source_with_test");
  write_file_atomic(root_ / "source_with_test/test-volume.tif", "images");
  convert(root_ / "source_with_test", root_ / "with_test/isbi2012_em");
  v1::Recipe made = recipe();
  made.mutable_io()->set_data_root((root_ / "with_test").string());
  made.mutable_data(1)->set_split("test");
  const auto trial = driver_->start(made, 0);
  EXPECT_THAT(refusal([&] { evaluate(*trial); }, Exit::kDataMismatch),
              HasSubstr("data 'validation': a batch without labels"));
}

TEST_F(SegmentationTest, LeavesPictures) {
  const v1::Recipe made = recipe();
  const auto trial = driver_->start(made, 0);
  const fs::path run = root_ / "run";
  trial->illustrate(run / "trials/seed-0000/pictures");
  Trial fold;
  fold.name = "seed-0000";
  fold.title = trial_title(recipe(), 0);
  const auto pictures = trial_pictures(run, {fold}, 1);
  if (pictures.empty()) GTEST_SKIP() << "built without OpenCV";
  ASSERT_EQ(pictures.size(), 1u);
  EXPECT_EQ(pictures[0].others, 3u);  // four slices are held out
  EXPECT_EQ(pictures[0].png.substr(1, 3), "PNG");
  Report report;
  EXPECT_EQ(plots_of(report), "");
  report.pictures = pictures;
  const std::string section = plots_of(report);
  EXPECT_THAT(section, HasSubstr("data:image/png;base64,iVBORw0KGgo"));
  const auto held_out = engine::fold_records(made.data(1).folds(), kSlices, 0).held_out;
  const int64_t first = *std::min_element(held_out.begin(), held_out.end());
  EXPECT_THAT(section, HasSubstr("fold 1 of 3, seed 0: slice-0" + std::to_string(first) + ".png"));
}

}  // namespace
}  // namespace reciperun
