// The U-Net at its published size, 34,512,258 parameters on 572 x 572 pixels: one pass of training
// and one prediction against PyTorch in float64 (fixtures/models/make_unet_full.py, which makes up
// the same weights, image and target).
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <map>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/base/proto_json.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"
#include "tests/models/made_up.h"

namespace assay::train {
namespace {

using test::made_up;

constexpr int64_t kImage = 572, kOutput = 388;
// Four times PyTorch's own float32 error against the file (README of the fixtures).
constexpr double kLogits = 2.7e-6, kGradients = 8e-4;

float scale_of(const Variable& variable) {
  if (variable.dims.rank() == 1) return 0.125f;
  const bool transposed = variable.name.find("transpose") != std::string::npos;
  const int64_t inputs = variable.dims[transposed ? 0 : 3];
  return static_cast<float>(
      std::sqrt(6.0 / static_cast<double>(variable.dims[1] * variable.dims[2] * inputs)));
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class UnetFull : public testing::Test {
 protected:
  UnetFull()
      : instance_(std::make_shared<ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model("unet_medical", R"({"dropout": 0})")),
            std::shared_ptr<Backend>(cpu::make_backend({})))) {
    for (const Variable& variable : instance_->variables().all()) {
      if (variable.role != Role::kValue) continue;
      const SegmentTensor tensor = instance_->segments().tensor(variable.name, Role::kValue);
      const auto values = made_up(variable.name, variable.dims.numel(), scale_of(variable));
      instance_->backend()->write(tensor.data, values.data(), tensor.bytes());
    }
    instance_->mark_initialized();
    const std::vector<float> white = made_up("input.target", kOutput * kOutput);
    for (const float value : white) {
      target_.push_back(value < 0.5f ? 0.0f : 1.0f);
      target_.push_back(value < 0.5f ? 1.0f : 0.0f);
    }
  }
  std::vector<HostTensor> batch() const {
    return {{DType::kF32, {1, kImage, kImage, 1}, image_.data()},
            {DType::kF32, {1, kOutput, kOutput, 2}, target_.data()}};
  }
  // The largest error of the logits that are known, in parts of the largest of them.
  double logit_error(const Program& program) const {
    const Program::Port& port = program.output("logits");
    std::vector<float> logits(static_cast<size_t>(port.type.numel()));
    program.backend().read(logits.data(), port.data, port.type.bytes());
    double error = 0, largest = 0;
    for (const auto& [name, value] : expected_) {
      if (!name.starts_with("logit.")) continue;
      const double ours = static_cast<double>(logits[std::stoull(name.substr(6))]);
      error = std::max(error, std::abs(ours - value)), largest = std::max(largest, std::abs(value));
    }
    EXPECT_GT(largest, 0);
    return error / largest;
  }

  std::shared_ptr<ModelInstance> instance_;
  std::vector<float> image_ = made_up("input.image", kImage*kImage), target_;
  std::map<std::string, double> expected_ = test::results_of("unet_medical_full.tsv");
};

TEST_F(UnetFull, TrainsAndPredictsAsPyTorchDoes) {
  PredictorOptions options;
  options.max_batch = 1;
  const Predictor predictor(*instance_, options);
  {
    PredictorSlot slot(predictor);
    const std::vector<HostTensor> images{batch()[0]};
    slot.run(images);
    RecordProperty("prediction_seconds", cat(seconds_of([&] { slot.run(images); })));
    EXPECT_LT(logit_error(slot.run(images)), kLogits);
  }
  TrainerConfig config;
  parse_json(R"({"batch_size": 1, "optimizer": {"name": "adam", "learning_rate": 1e-4}})", config,
             "test");
  Trainer trainer(instance_, config);
  trainer.backward(batch());
  for (const char* name : {"loss", "cross_entropy", "dice_loss"})
    EXPECT_NEAR(trainer.scalar(name), expected_.at(name), kLogits * expected_.at(name)) << name;
  for (const Variable& variable : instance_->variables().all()) {
    if (variable.role != Role::kValue) continue;
    const SegmentTensor tensor = instance_->segments().tensor(variable.name, Role::kGradient);
    const auto* gradient = static_cast<const float*>(tensor.data);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < variable.dims.numel(); ++i) {
      const auto value = static_cast<double>(gradient[i]);
      sum += value, squares += value * value;
    }
    const double norm = expected_.at("norm." + variable.name);
    EXPECT_NEAR(std::sqrt(squares), norm, kGradients * norm) << variable.name;
    const double terms = std::sqrt(static_cast<double>(variable.dims.numel()));
    EXPECT_NEAR(sum, expected_.at("sum." + variable.name), kGradients * norm * terms)
        << variable.name;
  }
  trainer.apply();
  RecordProperty("step_seconds", cat(seconds_of([&] { trainer.step(batch()); })));
  EXPECT_EQ(trainer.step_count(), 2);
}

}  // namespace
}  // namespace assay::train
