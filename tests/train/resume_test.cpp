// A trainer loaded from a checkpoint goes on with the same bits as the one that never stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "sdk/train/trainer_checkpoint.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using checkpoint::CheckpointReader;
using test::Batch;
using test::config_of;
using test::new_instance;
using test::persistent_bytes;

class Resume : public testing::Test {
 protected:
  // Tests run side by side.
  std::string path = testing::TempDir() + cat("resume_test.", getpid(), ".ckpt");
  void TearDown() override { std::filesystem::remove(path); }
};

class ResumeEach : public Resume, public testing::WithParamInterface<const char*> {};

TEST_P(ResumeEach, HasTheBitsOfTheUninterruptedRun) {
  const TrainerConfig config = config_of(GetParam());
  Trainer whole(new_instance(), config);
  for (int i = 0; i < 6; ++i) whole.step(Batch(i).tensors());

  {
    Trainer first(new_instance(), config);
    for (int i = 0; i < 3; ++i) first.step(Batch(i).tensors());
    save_checkpoint(first, path, checkpoint::kAllParts, {.epoch = 2, .data_cursor = "cursor"});
  }
  Trainer second(new_instance(), config);
  second.step(Batch(77).tensors());  // whatever was there before is replaced
  const auto state = load_checkpoint(second, CheckpointReader::open(path), checkpoint::kAllParts);
  EXPECT_EQ(state.data_cursor, "cursor");
  EXPECT_EQ(state.epoch, 2);
  EXPECT_EQ(second.step_count(), 3);
  StepInfo info;
  for (int i = 3; i < 6; ++i) info = second.step(Batch(i).tensors());
  EXPECT_EQ(info.samples, 6 * test::kBatch);
  EXPECT_EQ(persistent_bytes(second.instance()), persistent_bytes(whole.instance()));
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ResumeEach,
    testing::Values(
        R"({"optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
                        "schedule": {"name": "cosine", "total_steps": 6}})",
        R"({"optimizer": {"name": "adam", "learning_rate": 0.001, "ema_decay": 0.9}})",
        R"({"optimizer": {"name": "lamb", "learning_rate": 0.01, "weight_decay": 0.01}, "precision": "amp-bf16"})",
        R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "loss_scale": {"mode": "dynamic", "interval": 2}})"));

TEST_F(Resume, RefusesAnotherModelAndAnotherOptimizerAndChangesNothing) {
  Trainer source(new_instance(), config_of(test::kSgd));
  source.step(Batch(0).tensors());
  save_checkpoint(source, path, checkpoint::kAllParts, {});
  const CheckpointReader reader = CheckpointReader::open(path);

  Trainer wider(new_instance(2, R"({"image": [12, 12, 1], "conv": [4, 8], "hidden": [16]})"),
                config_of(test::kSgd));
  const auto before = persistent_bytes(wider.instance());
  EXPECT_THROW(load_checkpoint(wider, reader, checkpoint::kAllParts), Error);
  EXPECT_EQ(persistent_bytes(wider.instance()), before);

  Trainer adam(new_instance(),
               config_of(R"({"optimizer": {"name": "adam", "learning_rate": 0.001}})"));
  const auto adam_before = persistent_bytes(adam.instance());
  EXPECT_THROW(load_checkpoint(adam, reader, checkpoint::kAllParts), Error);
  EXPECT_EQ(persistent_bytes(adam.instance()), adam_before);
  // Weights alone may go to another optimizer.
  load_checkpoint(adam, reader, checkpoint::kWeights | checkpoint::kStatistics);
  EXPECT_EQ(adam.step_count(), 0);
}

// The moments of an optimizer that is gone are neither saved nor asked for.
TEST_F(Resume, AnEarlierTrainerOfTheModelLeavesNoTraceInCheckpoints) {
  const auto instance = new_instance();
  {
    Trainer adam(instance, config_of(R"({"optimizer":
        {"name": "adam", "learning_rate": 0.001, "ema_decay": 0.9}})"));
    adam.step(Batch(0).tensors());
  }
  Trainer used(instance, config_of(test::kSgd));
  Trainer fresh(new_instance(), config_of(test::kSgd));
  fresh.step(Batch(1).tensors());
  save_checkpoint(fresh, path, checkpoint::kAllParts, {});
  load_checkpoint(used, CheckpointReader::open(path), checkpoint::kAllParts);
  EXPECT_EQ(used.step_count(), 1);
  save_checkpoint(used, path, checkpoint::kAllParts, {});
  load_checkpoint(fresh, CheckpointReader::open(path), checkpoint::kAllParts);
  const auto reader = CheckpointReader::open(path);
  for (const auto& tensor : reader.tensors()) {
    EXPECT_NE(tensor.role, Role::kMoment2) << tensor.name;
    EXPECT_NE(tensor.role, Role::kEma) << tensor.name;
  }
}

TEST_F(Resume, ACheckpointInTheMiddleOfAnAccumulationIsRefused) {
  TrainerConfig config = config_of(test::kSgd);
  config.set_accumulate(2);
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  EXPECT_THROW(save_checkpoint(trainer, path, checkpoint::kAllParts, {}), Error);
  trainer.step(Batch(1).tensors());
  save_checkpoint(trainer, path, checkpoint::kAllParts, {});
}

}  // namespace
}  // namespace assay::train
