// The example program that finds objects: what it does by itself to a picture is what the library
// does to records of it.
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

const std::string kPhotograph = ASSAY_SOURCE_DIR "/tests/fixtures/images/colour_420.jpg";

struct Detection {
  int category;
  double score;
  std::array<double, 4> box;  // left, top, right, bottom
};

class DetectObjects : public testing::Test {
 protected:
  // A detector that has learnt nothing: it gives its best hundred boxes nonetheless.
  DetectObjects() {
    ok(assay_model_initialize, model_.get(), uint64_t{1});
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = 2, .learning_rate = 0.1};
    const auto trainer =
        make<assay_trainer>(assay_trainer_create, model_.get(), &options,
                            text(R"({"image_size": [128, 128], "optimizer": {"name": "sgd"}})"));
    ok(assay_checkpoint_save, trainer.get(), text(checkpoint_), 0u);
  }

  // By way of a data set and its loader.
  std::vector<Detection> expected() const {
    namespace fs = std::filesystem;
    const fs::path source = folder_.at("source");
    fs::create_directories(source / "annotations");
    fs::create_directories(source / "train2017");
    fs::copy(kPhotograph, source / "train2017" / "1.jpg");
    std::ofstream(source / "annotations" / "instances_train2017.json")
        << R"({"images": [{"id": 1, "file_name": "1.jpg", "height": 107, "width": 150}],
               "annotations": [], "categories": [{"id": 1, "name": "cat"}]})";
    const std::string from = source.string(), to = folder_.at("coco");
    ok(assay_dataset_convert, context_.get(), text("coco"), text(from), text(to), text(""), nullptr,
       uintptr_t{0}, nullptr);
    const auto loader = make<assay_loader>(
        assay_loader_create, context_.get(), text(to), text("train"),
        text(R"({"batch_size": 1, "order": "sequential"})"),
        text(
            R"({"origin": true, "mean": [0.485, 0.456, 0.406], "stddev": [0.229, 0.224, 0.225]})"));
    std::array<const assay_tensor*, 6> batch{};
    ok(assay_loader_next, loader.get(), batch.data(), batch.size(), nullptr);
    float scale = 0;
    ok(assay_tensor_read, batch[5], static_cast<void*>(&scale), sizeof scale);
    const auto predictor =
        make<assay_predictor>(assay_predictor_create, model_.get(), text(R"({"max_batch": 1})"));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    std::array<assay_tensor*, 3> out{};
    ok(assay_predictor_run, predictor.get(), slot.get(), batch.data(), size_t{1}, out.data(),
       out.size());
    std::array<std::array<float, 4>, 100> boxes{};
    std::array<float, 100> scores{};
    std::array<int32_t, 100> classes{};
    ok(assay_tensor_read, out[0], static_cast<void*>(boxes.data()), sizeof boxes);
    ok(assay_tensor_read, out[1], static_cast<void*>(scores.data()), sizeof scores);
    ok(assay_tensor_read, out[2], static_cast<void*>(classes.data()), sizeof classes);
    for (assay_tensor* each : out) assay_tensor_release(each);
    std::vector<Detection> found;
    for (size_t i = 0; i < classes.size() && classes[i] >= 0; ++i) {
      const auto side = [&](size_t k) { return static_cast<double>(boxes[i][k] * scale); };
      found.push_back({classes[i] + 1, scores[i], {side(1), side(0), side(3), side(2)}});
    }
    return found;
  }

  static Printed program(const std::string& arguments) {
    return printed_by(ASSAY_DETECT_PROGRAM " " + arguments);
  }

  TemporaryFolder folder_;
  std::string checkpoint_ = folder_.at("detector.ckpt");
  Owned<assay_context> context_ = make_context();
  Owned<assay_model> model_ =
      make<assay_model>(assay_model_named, context_.get(), text("efficientdet_d0"),
                        text(R"({"classes": 3, "width": 16, "cells": 1})"));
};

TEST_F(DetectObjects, SeesWhatALoaderGives) {
  const std::vector<Detection> all = expected();
  const Printed printed = program(checkpoint_ + " " + kPhotograph + " 0");
  EXPECT_EQ(printed.code, 0) << printed.all;
  const std::regex line(
      R"(category (\d), ([\d.]+): left (\S+), top (\S+), right (\S+), bottom (\S+)\n)");
  size_t lines = 0;
  for (auto it = std::sregex_iterator(printed.all.begin(), printed.all.end(), line);
       it != std::sregex_iterator() && lines < 20; ++it, ++lines) {
    const auto is_it = [&](const Detection& detection) {
      bool same = detection.category == std::stoi((*it)[1]) &&
                  std::abs(detection.score - std::stod((*it)[2])) < 2e-4;
      for (size_t k = 0; k < 4; ++k)
        same = same && std::abs(detection.box[k] - std::stod((*it)[3 + k])) < 0.2;
      return same;
    };
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), is_it)) << (*it)[0];
  }
  EXPECT_EQ(lines, 20u) << printed.all;
}

TEST_F(DetectObjects, SaysWhatIsWrong) {
  EXPECT_EQ(program(checkpoint_ + " " + kPhotograph).all, "") << "nothing is as sure as 0.3";
  EXPECT_EQ(program(checkpoint_).code, 2);
  const Printed no_picture = program(checkpoint_ + " nowhere.jpg");
  EXPECT_EQ(no_picture.code, 1);
  EXPECT_THAT(no_picture.all, HasSubstr("cannot read nowhere.jpg"));
  EXPECT_THAT(program(checkpoint_ + " " + checkpoint_).all, HasSubstr("Not a JPEG file"));
  const Printed no_model = program("nowhere.ckpt " + kPhotograph);
  EXPECT_EQ(no_model.code, 1);
  EXPECT_THAT(no_model.all, HasSubstr("nowhere.ckpt"));
}

}  // namespace
}  // namespace assay::test
