// A detector through the driver, on one picture with two boxes: from COCO's files to COCO's
// numbers.
#include <assay/assay_data.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#ifdef ASSAY_OPENCV
#include <opencv2/imgcodecs.hpp>
#endif

#include "tests/recipe_run/real_engine.h"
#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/pictures.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

// Four times the same photograph, 150 x 107 pixels, with an object in it; the last has none.
std::string instances() {
  std::string images, objects;
  for (const char id : {'1', '2', '3', '4'}) {
    const std::string number(1, id);
    images += (images.empty() ? "" : ",") + (R"({"id": )" + number) + R"(, "file_name": ")" +
              number + R"(.jpg", "height": 107, "width": 150})";
    if (id < '4')
      objects += (objects.empty() ? "" : ",") + (R"({"id": )" + number) + R"(, "image_id": )" +
                 number + R"(, "category_id": 3, "bbox": [20, 30, 60, 50], "area": 3000,
                              "iscrowd": 0})";
  }
  return R"({"images": [)" + images + R"(], "annotations": [)" + objects +
         R"(], "categories": [{"id": 3, "name": "car"}]})";
}

class DetectionRecipeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::path(::testing::TempDir()) / ("detection_" + std::to_string(getpid()));
    const fs::path source = root_ / "source";
    for (const std::string split : {"train", "val"}) {
      write_file_atomic(source / "annotations" / ("instances_" + split + "2017.json"), instances());
      for (const std::string id : {"1", "2", "3", "4"})
        write_file_atomic(
            source / (split + "2017") / (id + ".jpg"),
            read_file(fs::path(ASSAY_SOURCE_DIR) / "tests/fixtures/images/colour_444.jpg"));
    }
    assay_context* context = nullptr;
    call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &context);
    const engine::Context owner(context);
    const std::string from = source.string(), to = (root_ / "coco").string();
    call(Exit::kCrashed, assay_dataset_convert, context, text("coco"), text(from), text(to),
         text(""), nullptr, uintptr_t{0}, nullptr);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static v1::Recipe recipe() {
    const std::string normalize =
        R"(pipeline { op: "normalize" arg { key: "mean" value: "[123.675, 116.28, 103.53]" }
                      arg { key: "std" value: "[58.395, 57.12, 57.375]" } })";
    v1::Recipe recipe;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(id: "test/detector" model { arch: "efficientdet_d0"
             hparam { key: "classes" value: "4" } hparam { key: "width" value: "16" }
             hparam { key: "cells" value: "1" } hparam { key: "repeats" value: "1" } }
           data { id: "train" role: "train" lock: "coco" split: "train" nominal_epoch_samples: 24 )" +
            normalize + R"( pipeline { op: "random_flip" }
             pipeline { op: "random_scale_crop" arg { key: "to" value: "[128, 128]" }
                        arg { key: "scale" value: "[0.9, 1.1]" } } }
           data { id: "val" role: "eval" lock: "coco" split: "val" )" +
            normalize + R"(
             pipeline { op: "resize_longer_pad" arg { key: "to" value: "[128, 128]" } } }
           training { epochs: 1 batch_per_device: 4 ema_decay: 0.9 clip_variable_norm: 10
             loss { kind: "l2" of: "kernel" weight: 4e-05 }
             optimizer { name: "sgd" lr: 0.02 momentum: 0.9 no_decay: "bn" no_decay: "bias"
                         no_decay: "scalar" } schedule { kind: "constant" } }
           evaluation { evaluator: "coco_bbox_ap" evaluator_version: "1" metric: "AP"
             arg { key: "score_decimals" value: "3" } arg { key: "nms" value: "gaussian_soft" }
             select: EMA_LAST when: "end" batch: 3 }
           io { data_root: ")" +
            root_.string() + R"(" workers: 1 })",
        &recipe));
    return recipe;
  }
  std::string refusal(const v1::Recipe& made) { return refusal_by(*driver_, made); }

  static fs::path root_;
  std::unique_ptr<TrainerDriver> driver_ = make_assay_driver("cpu", 1);
};
fs::path DetectionRecipeTest::root_;

TEST_F(DetectionRecipeTest, TrainsAndIsScored) {
  ASSERT_EQ(refusal(recipe()), "");
  const auto trial = driver_->start(recipe(), 1);
  EXPECT_EQ(trial->total_steps(), 6);  // of the nominal epoch
  EXPECT_THAT(trial->metrics(), IsSupersetOf({"AP", "AP50", "loss", "class_loss", "box_loss"}));
  for (int i = 0; i < 6; ++i) trial->run_step();
  const auto metrics = trial->evaluate(root_, [](double) { return true; }).metric();
  EXPECT_GE(metrics.at("AP"), 0);
  EXPECT_LE(metrics.at("AP"), metrics.at("AP50"));
  EXPECT_EQ(metrics.count("AP_large"), 0U);  // no object is
  EXPECT_EQ(metrics.count("AP_medium"), 1U);
  const std::string found = read_file(root_ / "detections.json");
  EXPECT_THAT(found, AllOf(HasSubstr("\"image_id\""), HasSubstr("\"score\"")));
}

TEST_F(DetectionRecipeTest, ReportsShowCurvesCategoriesAndTheWorstMisses) {
  const fs::path run = root_ / "run";
  Trial done;
  done.name = "seed-0001";
  done.title = "seed 1";
  Report report;
  create_folders(run / "trials/seed-0001");
  const auto trial = driver_->start(recipe(), 1);
  trial->run_step();
  trial->evaluate(run / "trials/seed-0001", [](double) { return true; });
  trial->illustrate(run / "trials/seed-0001/pictures");
  report.detections = trial_detections(run, {done});
  ASSERT_EQ(report.detections.size(), 1u);
  const record::DetectionScores& scores = report.detections[0].scores;
  ASSERT_EQ(scores.category_size(), 1);
  EXPECT_EQ(scores.category(0).objects(), 3);
  EXPECT_THAT(scores.category(0).metric(), SizeIs(8)) << "none is small or large";
  ASSERT_EQ(scores.curve_size(), 10);
  EXPECT_DOUBLE_EQ(scores.curve(9).overlap(), 0.95);
  EXPECT_EQ(scores.curve(0).precision_size(), 101);
  const std::string section = plots_of(report);
  EXPECT_THAT(section, AllOf(HasSubstr("Precision by recall, seed 1"), HasSubstr("overlap 0.9"),
                             HasSubstr("<td class=\"row\">car</td><td data-h=\"objects\">3</td>")));
  EXPECT_THAT(section, Not(HasSubstr("<h2>Pictures</h2>")));

  report.pictures = trial_pictures(run, {done}, 3);
  if (!engine::can_write_pictures()) GTEST_SKIP() << "built without OpenCV";
  ASSERT_EQ(report.pictures.size(), 3u);  // as unsure as it is, it misses all there is
  EXPECT_EQ(report.pictures[0].name, "01-1.png");
  EXPECT_EQ(report.pictures[2].name, "03-3.png");
  EXPECT_EQ(report.pictures[1].others, 0u);
  EXPECT_EQ(report.pictures[2].others, 1u) << "the image without an object comes last";
  EXPECT_THAT(plots_of(report),
              AllOf(HasSubstr("seed 1: 01-1.png"), HasSubstr("the worst first"),
                    HasSubstr("1 more in <code>trials/seed-0001/pictures</code>")));
#ifdef ASSAY_OPENCV
  // 150 x 107 pixels in a sample of 128, four times as large.
  const std::string& png = report.pictures[0].png;
  const cv::Mat picture =
      cv::imdecode(std::vector<uint8_t>(png.begin(), png.end()), cv::IMREAD_COLOR);
  ASSERT_EQ(picture.size(), cv::Size(512, 364));
  const cv::Mat photograph =
      cv::imread(ASSAY_SOURCE_DIR "/tests/fixtures/images/colour_444.jpg", cv::IMREAD_COLOR);
  const auto at = [](double pixel) { return static_cast<int>(pixel * 4 * 128 / 150); };
  EXPECT_EQ(picture.at<cv::Vec3b>(at(55), at(20)), cv::Vec3b(255, 255, 255)) << "its left side";
  const auto is_near = [&](const cv::Vec3b& a, const cv::Vec3b& b) {
    return cv::norm(a, b, cv::NORM_INF) < 40;
  };
  int alike = 0;
  for (int y = 5; y < 105; y += 10)
    for (int x = 90; x < 145; x += 5)
      alike += is_near(picture.at<cv::Vec3b>(at(y), at(x)), photograph.at<cv::Vec3b>(y, x));
  EXPECT_GT(alike, 88) << "of 110 pixels beside it";
#endif
}

TEST_F(DetectionRecipeTest, DecayStandsInTheLoss) {
  const std::string json = engine::trainer_config(recipe(), {6, 6}, 0, 1, 0);
  EXPECT_THAT(json, AllOf(HasSubstr(R"("weight_decay":0.00004,"decay_in_loss":true)"),
                          HasSubstr(R"("image_size":[128,128])"),
                          HasSubstr(R"("kind":["batch_norm","bias","scalar"])")));
  v1::Recipe twice = recipe();
  twice.mutable_training()->mutable_optimizer()->set_weight_decay(1e-4);
  EXPECT_THAT(refusal(twice), HasSubstr("the same twice"));
}

// In the last level of a sample of 128 x 128 pixels a channel has one value an image.
TEST_F(DetectionRecipeTest, ABatchOfOneHasNoStatistics) {
  v1::Recipe one = recipe();
  one.mutable_training()->set_batch_per_device(1);
  EXPECT_THAT(refusal(one), HasSubstr("one value"));
}

TEST_F(DetectionRecipeTest, ABatchWithoutAnyBoxTrains) {
  v1::Recipe empty = recipe();
  for (v1::DataRef& data : *empty.mutable_data()) {
    data.mutable_range()->set_first(3), data.mutable_range()->set_count(1);
    if (data.role() == "train") data.set_nominal_epoch_samples(4);
  }
  const auto trial = driver_->start(empty, 1);
  const StepResult step = trial->run_step();
  EXPECT_GT(step.loss, 0);
  const auto metrics = trial->evaluate(root_, [](double) { return true; }).metric();
  EXPECT_EQ(metrics.at("box_loss"), 0);
  EXPECT_EQ(metrics.count("AP"), 0U) << "there is nothing to be found";
}

TEST_F(DetectionRecipeTest, WhatTheModelDoesNotDoIsRefused) {
  v1::Recipe other = recipe();
  v1::Loss& focal = *other.mutable_training()->add_loss();
  focal.set_kind("focal"), focal.set_of("classes"), focal.set_weight(1);
  (*focal.mutable_arg())["alpha"] = "0.3";
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("alpha 0.3"), HasSubstr("alpha 0.25, gamma 1.5")));
  other = recipe();
  (*other.mutable_evaluation()->mutable_arg())["nms_sigma"] = "0.6";
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("nms_sigma"), HasSubstr("0.5")));
  other = recipe();
  (*other.mutable_evaluation()->mutable_arg())["score_decimals"] = "none";
  EXPECT_THAT(refusal(other), HasSubstr("score_decimals"));
  other = recipe();
  other.mutable_data(1)->clear_pipeline();
  EXPECT_THAT(refusal(other), HasSubstr("resize_longer_pad"));
}

TEST_F(DetectionRecipeTest, MeasurementsMaySuppressAsThePublishedOnes) {
  v1::Recipe timed = recipe();
  v1::Bench& bench = *timed.add_bench();
  bench.set_id("infer"), bench.set_mode(v1::Bench::INFER), bench.add_batch(1);
  bench.set_input("synthetic");
  const std::pair<const char*, const char*> hard[] = {
      {"candidates", "5000"}, {"max_detections", "100"}, {"min_score", "0.4"},
      {"nms", "hard"},        {"nms_iou", "0.5"},        {"nms_per_class", "false"}};
  for (const auto& [name, value] : hard) (*bench.mutable_arg())[name] = value;
  EXPECT_EQ(refusal(timed), "");
  EXPECT_THAT(engine::predictor_config(timed, 1, engine::prediction_of(bench)),
              HasSubstr(R"("suppression":"hard")"));
  (*bench.mutable_arg())["nms_iou"] = "0.6";
  EXPECT_THAT(refusal(timed), HasSubstr("hard suppression"));
}

}  // namespace
}  // namespace reciperun
