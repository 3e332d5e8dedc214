// Training on mixed images: what the network sees, what it is held against, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/hash.h"
#include "sdk/base/philox_beta.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::kBatch;

constexpr double kSmoothing = 0.1;
const char* const kModel =
    R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16], "batch_norm": false})";
const char* const kMixed = R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "seed": 3,
                               "label_smoothing": 0.1, "mixup_alpha": 0.2})";

float weight(int64_t step, int64_t row) {
  PhiloxStream random(3, hash_name("mixup"), static_cast<uint64_t>(step),
                      static_cast<uint32_t>(row));
  return static_cast<float>(philox_beta(random, 0.2));
}

// Each image with the one opposite, as the step mixes them.
Batch mixed(const Batch& batch, int64_t step) {
  Batch out = batch;
  for (int64_t n = 0; n < kBatch; ++n) {
    const float w = weight(step, n);
    for (int64_t p = 0; p < 144; ++p) {
      const float other = batch.images[(kBatch - 1 - n) * 144 + p];
      out.images[n * 144 + p] = w * batch.images[n * 144 + p] + (1 - w) * other;
    }
  }
  return out;
}

// Of an evaluation, which mixes nothing.
std::vector<float> logits_of(Trainer& trainer, const Batch& batch) {
  test::evaluate(trainer, batch.tensors());
  const Program::Port& port = trainer.evaluated("logits");
  std::vector<float> logits(static_cast<size_t>(port.type.numel()));
  trainer.instance().backend()->read(logits.data(), port.data, port.type.bytes());
  return logits;
}

// Smoothed cross-entropy of one row with one label.
double row_loss(const float* logits, int32_t label) {
  double sum = 0, mean = 0;
  for (int c = 0; c < 10; ++c) {
    sum += std::exp(static_cast<double>(logits[c]));
    mean += static_cast<double>(logits[c]) / 10;
  }
  return std::log(sum) - (1 - kSmoothing) * static_cast<double>(logits[label]) - kSmoothing * mean;
}

TEST(TrainingOnMixedImages, LossIsThatOfTheMixedImagesWithBothLabels) {
  const Batch batch(1);
  Trainer trainer(test::new_instance(2, kModel), config_of(kMixed));
  for (int64_t step = 0; step < 3; ++step) {
    const std::vector<float> logits = logits_of(trainer, mixed(batch, step));
    const StepInfo info = trainer.step(batch.tensors());
    double expected = 0;
    for (int64_t n = 0; n < kBatch; ++n) {
      const auto w = static_cast<double>(weight(step, n));
      const float* row = &logits[static_cast<size_t>(10 * n)];
      expected += w * row_loss(row, batch.labels[n]) / kBatch;
      expected += (1 - w) * row_loss(row, batch.labels[kBatch - 1 - n]) / kBatch;
    }
    EXPECT_NEAR(info.loss, expected, 1e-6 * expected) << step;
  }
}

// Evaluation mixes nothing: its answer is that of a trainer that never heard of mixup.
TEST(TrainingOnMixedImages, EvaluatesPlainOnes) {
  const Batch batch(2);
  TrainerConfig unmixed_config = config_of(kMixed);
  unmixed_config.mixup_alpha = 0;
  Trainer mixed(test::new_instance(2, kModel), config_of(kMixed));
  Trainer unmixed(test::new_instance(2, kModel), unmixed_config);
  EXPECT_EQ(test::evaluate(mixed, batch.tensors()).loss,
            test::evaluate(unmixed, batch.tensors()).loss);
}

TEST(TrainingOnMixedImages, IsRefusedWhereItHasNoMeaning) {
  TrainerConfig config = config_of(kMixed, 2);
  config.mixup_alpha = -0.2;
  EXPECT_THROW(Trainer(test::new_instance(2, kModel), config), Error);
  config.mixup_alpha = 0.2;
  config.label_smoothing = 0;
  const auto segmentation = std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(
          "unet_medical", R"({"image": [44, 44, 1], "depth": 2, "width": 2})")),
      std::shared_ptr<Backend>(cpu::make_backend({})));
  try {
    Trainer trainer(segmentation, config);
    ADD_FAILURE() << "mixed masks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(), testing::HasSubstr("unet_medical is no classifier of images"));
  }
}

}  // namespace
}  // namespace assay::train
