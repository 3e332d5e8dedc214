// Loss scales, and steps that are skipped or refused because of what they found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::error_of;
using test::kBatch;
using test::kSgd;
using test::new_instance;
using test::persistent_bytes;
using testing::HasSubstr;

// A power of two as loss scale moves exponents only: the update has the same bits, in fp32.
TEST(Trainer, AStaticLossScaleChangesNothing) {
  Trainer plain(new_instance(), config_of(kSgd));
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "static";
  config.loss_scale.initial = 1024;
  Trainer scaled(new_instance(), config);
  for (int i = 0; i < 3; ++i) {
    const StepInfo a = plain.step(Batch(i).tensors());
    const StepInfo b = scaled.step(Batch(i).tensors());
    EXPECT_EQ(a.grad_norm, b.grad_norm);
    EXPECT_EQ(b.loss_scale, 1024);
  }
  for (const SegmentTensor& tensor : plain.instance().segments().all()) {
    if (tensor.role != Role::kValue) continue;
    const SegmentTensor other =
        scaled.instance().segments().tensor(tensor.variable->name, Role::kValue);
    EXPECT_EQ(std::memcmp(tensor.data, other.data, tensor.bytes()), 0) << tensor.variable->name;
  }
}

TEST(Trainer, DynamicLossScaleHalvesOnOverflowAndGrowsAgain) {
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "dynamic";
  config.loss_scale.initial = 8;
  config.loss_scale.interval = 3;
  Trainer trainer(new_instance(), config);
  Batch bad(1);
  bad.images[7] = INFINITY;
  EXPECT_TRUE(trainer.step(bad.tensors()).skipped);
  EXPECT_EQ(trainer.loss_scale(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(trainer.step(Batch(i).tensors()).updated);
  EXPECT_EQ(trainer.loss_scale(), 8);
}

TEST(Trainer, ASkippedStepChangesNothingButTheScale) {
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "dynamic";
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  const auto bytes_without_state = [&] {
    std::vector<std::byte> all;
    for (const SegmentTensor& tensor : trainer.instance().segments().all()) {
      if (tensor.role == Role::kGradient || tensor.role == Role::kState) continue;
      const auto* data = static_cast<const std::byte*>(tensor.data);
      all.insert(all.end(), data, data + tensor.bytes());
    }
    return all;
  };
  const auto before = bytes_without_state();
  Batch bad(1);
  bad.images[7] = INFINITY;
  ASSERT_TRUE(trainer.step(bad.tensors()).skipped);
  EXPECT_EQ(bytes_without_state(), before);
}

// Rates of three updates whose second is skipped; the rate falls by a fifth with each in the
// schedule.
TEST(Trainer, ASkippedUpdateMovesTheScheduleOnOrHoldsIt) {
  const auto rates = [](const std::string& on_skip) {
    TrainerConfig config = config_of(kSgd);
    config.schedule = {.name = "polynomial", .total_steps = 5, .on_skip = on_skip};
    config.loss_scale.mode = "dynamic";
    Trainer trainer(new_instance(), config);
    std::vector<double> factors;
    for (int i = 0; i < 4; ++i) {
      Batch batch(i);
      if (i == 1) batch.images[7] = INFINITY;
      const StepInfo info = trainer.step(batch.tensors());
      EXPECT_EQ(info.skipped, i == 1);
      EXPECT_EQ(info.step, i + 1);
      factors.push_back(info.learning_rate / 0.05);
    }
    EXPECT_EQ(trainer.update_count(), 3);
    return factors;
  };
  using testing::DoubleEq;
  EXPECT_THAT(rates("advance"),
              testing::ElementsAre(DoubleEq(1), DoubleEq(0.8), DoubleEq(0.6), DoubleEq(0.4)));
  EXPECT_THAT(rates("hold"),
              testing::ElementsAre(DoubleEq(1), DoubleEq(0.8), DoubleEq(0.8), DoubleEq(0.6)));
}

// One sum of gradients has one scale.
TEST(Trainer, TheLossScaleChangesBetweenUpdatesOnly) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  config.loss_scale.mode = "static";
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  error_of([&] { trainer.set("loss_scale", 1024); });
  trainer.step(Batch(1).tensors());
  trainer.set("loss_scale", 1024);
  error_of([&] { trainer.set("loss_scale", 1e-60); });
}

TEST(Trainer, ANanLossIsAnErrorAndLosesNothing) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  const auto before = persistent_bytes(trainer.instance());
  Batch bad(1);
  bad.images[7] = std::nanf("");
  EXPECT_THAT(error_of([&] { trainer.step(bad.tensors()); }, Code::kNonFinite),
              HasSubstr("step 2: the loss is nan"));
  EXPECT_EQ(persistent_bytes(trainer.instance()), before);
  EXPECT_EQ(trainer.step_count(), 1);
  EXPECT_EQ(trainer.step(Batch(1).tensors()).step, 2);  // and it goes on
}

// An update that is not done takes back what the backward passes before it did to the statistics.
TEST(Trainer, ARefusedAccumulationLeavesNoTrace) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  Trainer trainer(new_instance(), config), untouched(new_instance(), config);
  for (int i = 0; i < 2; ++i) trainer.step(Batch(i).tensors()), untouched.step(Batch(i).tensors());
  const auto before = persistent_bytes(trainer.instance());
  trainer.step(Batch(2).tensors());
  EXPECT_NE(persistent_bytes(trainer.instance()), before);  // the statistics have moved
  Batch bad(3);
  bad.images[7] = std::nanf("");
  error_of([&] { trainer.step(bad.tensors()); }, Code::kNonFinite);
  EXPECT_EQ(persistent_bytes(trainer.instance()), before);
  EXPECT_EQ(trainer.step_count(), 1);
  EXPECT_EQ(trainer.sample_count(), 2 * kBatch);
  // It goes on as if those batches had never been given; dropout follows the batches counted.
  for (int i = 4; i < 6; ++i) trainer.step(Batch(i).tensors()), untouched.step(Batch(i).tensors());
  EXPECT_EQ(persistent_bytes(trainer.instance()), persistent_bytes(untouched.instance()));
}

TEST(Trainer, ASkippedAccumulationKeepsTheStatistics) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  config.loss_scale.mode = "dynamic";
  const auto instance = new_instance();
  Trainer trainer(instance, config);
  for (int i = 0; i < 2; ++i) trainer.step(Batch(i).tensors());
  const auto running_mean = [&] {
    return test::values_of(*instance, "block1.bn.running_mean", Role::kStatistic);
  };
  const auto before = running_mean();
  trainer.step(Batch(2).tensors());
  EXPECT_NE(running_mean(), before);
  Batch bad(3);
  bad.images[7] = INFINITY;
  const StepInfo info = trainer.step(bad.tensors());
  EXPECT_TRUE(info.skipped);
  EXPECT_EQ(info.samples, 4 * kBatch);
  EXPECT_EQ(running_mean(), before);
}

}  // namespace
}  // namespace assay::train
