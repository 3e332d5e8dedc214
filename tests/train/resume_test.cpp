// A trainer loaded from a checkpoint goes on with the same bits as the one that never stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>

#include "sdk/train/trainer_checkpoint.h"
#include "tests/train/failing_source.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using checkpoint::CheckpointReader;
using test::Batch;
using test::config_of;
using test::FailingSource;
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
    save_checkpoint(first, path, checkpoint::kAllParts, {.data_cursor = "cursor"});
  }
  Trainer second(new_instance(), config);
  second.step(Batch(77).tensors());  // whatever was there before is replaced
  const auto state = load_checkpoint(second, CheckpointReader::open(path), checkpoint::kAllParts);
  EXPECT_EQ(state.data_cursor, "cursor");
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
        R"({"optimizer": {"name": "sgd", "learning_rate": 0.05, "clip_each_norm": 0.1, "ema_decay": 0.9,
                          "ema_warmup": true, "ema_statistics": true}})",
        R"({"optimizer": {"name": "lamb", "learning_rate": 0.01, "weight_decay": 0.01}, "precision": "amp-bf16"})",
        R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "loss_scale": {"mode": "dynamic", "interval": 2}})",
        R"({"optimizer": {"name": "lamb", "learning_rate": 0.01, "weight_decay": 0.01, "group": [
              {"match": ["block1.*"], "lr_scale": 0.5},
              {"match": ["*.bias", "*.bn.*"], "weight_decay": 0, "no_trust_ratio": true}]}})",
        R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "label_smoothing": 0.1, "mixup_alpha": 0.2, "seed": 5})"));

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

std::string refusal(Trainer& trainer, const CheckpointReader& reader, uint32_t parts) {
  try {
    load_checkpoint(trainer, reader, parts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid) << error.what();
    EXPECT_NE(error.detail().hint, "");
    return cat(error.detail().argument, " ", error.detail().expected, " ", error.detail().actual);
  }
  return "no error";
}

// Whatever changes the numbers that follow is compared, and named with both values.
TEST_F(Resume, RefusesAConfigurationThatWouldGoOnOtherwise) {
  const std::string json = R"({"optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9,
      "group": [{"match": ["*.bias"], "weight_decay": 0}]}, "seed": 3,
      "schedule": {"name": "cosine", "total_steps": 6}})";
  Trainer source(new_instance(), config_of(json));
  source.step(Batch(0).tensors());
  save_checkpoint(source, path, checkpoint::kAllParts, {});
  const CheckpointReader reader = CheckpointReader::open(path);
  const auto refused = [&](const std::function<void(TrainerConfig&)>& change) {
    TrainerConfig config = config_of(json);
    change(config);
    Trainer trainer(new_instance(), config);
    const auto before = persistent_bytes(trainer.instance());
    std::string answer = refusal(trainer, reader, checkpoint::kAllParts);
    EXPECT_EQ(persistent_bytes(trainer.instance()) == before, answer != "no error");
    return answer;
  };
  EXPECT_EQ(refused([](auto& c) { c.seed = 4; }), "seed \"3\" \"4\"");
  EXPECT_EQ(refused([](auto& c) { c.precision = "amp-bf16"; }), "precision \"fp32\" \"amp-bf16\"");
  EXPECT_EQ(refused([](auto& c) { c.optimizer.momentum = 0.8; }), "optimizer.momentum 0.9 0.8");
  EXPECT_EQ(refused([](auto& c) { c.optimizer.learning_rate = 0.1; }),
            "optimizer.learning_rate 0.05 0.1");
  EXPECT_EQ(refused([](auto& c) { c.optimizer.clip_norm = 1; }), "optimizer.clip_norm 0 1");
  EXPECT_EQ(refused([](auto& c) { c.optimizer.group[0].weight_decay = 1; }),
            "optimizer.group[0].weight_decay 0 1");
  EXPECT_EQ(refused([](auto& c) { c.schedule.total_steps = 7; }),
            "schedule.total_steps \"6\" \"7\"");
  EXPECT_EQ(refused([](auto& c) { c.schedule.warmup_steps = 1; }),
            "schedule.warmup_steps \"0\" \"1\"");
  EXPECT_EQ(refused([](auto& c) { c.accumulate = 2; }), "accumulate \"1\" \"2\"");
  EXPECT_EQ(refused([](auto& c) { c.batch_size = 8; }), "batch_size \"16\" \"8\"");
  EXPECT_EQ(refused([](auto& c) { c.label_smoothing = 0.1; }), "label_smoothing 0 0.1");
  EXPECT_EQ(refused([](auto& c) { c.loss_scale.mode = "dynamic"; }),
            "loss_scale.mode \"none\" \"dynamic\"");
  EXPECT_EQ(refused([](auto& c) { c.disabled_pass.push_back("fuse_activation"); }),
            "disabled_pass [] [\"fuse_activation\"]");
  // What changes no bit may differ.
  EXPECT_EQ(refused([](auto& c) { c.eval_batch_size = 5; }), "no error");
  EXPECT_EQ(refused([](auto& c) { c.raw_images.emplace(); }), "no error");
}

// Whether the loader or the device finishes images changes no bit; how they are finished does.
TEST_F(Resume, RefusesAnotherNormalisationOfRawImages) {
  TrainerConfig config = config_of(test::kSgd);
  config.raw_images.emplace().mean.push_back(0.5);
  save_checkpoint(Trainer(new_instance(), config), path, checkpoint::kAllParts, {});
  const CheckpointReader reader = CheckpointReader::open(path);
  config.raw_images->mean[0] = 0.25;
  Trainer trainer(new_instance(), config);
  EXPECT_EQ(refusal(trainer, reader, checkpoint::kAllParts), "raw_images.mean[0] 0.5 0.25");
}

TEST_F(Resume, NamesTheKeyInWhichModelsDiffer) {
  Trainer source(new_instance(), config_of(test::kSgd));
  save_checkpoint(source, path, checkpoint::kAllParts, {});
  Trainer other(new_instance(2, R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16],
                                    "dropout": 0.5})"),
                config_of(test::kSgd));
  EXPECT_EQ(refusal(other, CheckpointReader::open(path), checkpoint::kAllParts),
            "model.dropout 0.25 0.5");
}

// Files of before `trainer_config`: only what they say is compared.
TEST_F(Resume, GoesOnFromAFileThatSaysLess) {
  const TrainerConfig config = config_of(test::kSgd);
  Trainer whole(new_instance(), config);
  whole.step(Batch(0).tensors());
  save_checkpoint(whole, path, checkpoint::kAllParts, {});
  {
    const CheckpointReader reader = CheckpointReader::open(path);
    checkpoint::CheckpointState state = reader.state();
    state.trainer_config.clear();
    state.learning_rate = 0;
    state.optimizer_config = R"({"name":"sgd","learning_rate":0.05,"momentum":0.9,
        "nesterov":false,"momentum_convention":"","epsilon_form":"","group":[]})";
    std::deque<std::vector<std::byte>> elements;
    std::vector<checkpoint::TensorRecord> records;
    for (const auto& tensor : reader.tensors()) {
      reader.read(tensor, elements.emplace_back(tensor.bytes));
      records.push_back({tensor.name, tensor.role, tensor.dtype, tensor.dims, elements.back()});
    }
    checkpoint::write_checkpoint(path + ".old", state, records);
  }
  const CheckpointReader old = CheckpointReader::open(path + ".old");
  Trainer resumed(new_instance(), config);
  load_checkpoint(resumed, old, checkpoint::kAllParts);
  whole.step(Batch(1).tensors());
  EXPECT_EQ(resumed.step(Batch(1).tensors()).learning_rate, 0.05);
  EXPECT_EQ(persistent_bytes(resumed.instance()), persistent_bytes(whole.instance()));
  TrainerConfig faster = config;
  faster.optimizer.momentum = 0.8;
  Trainer other(new_instance(), faster);
  EXPECT_EQ(refusal(other, old, checkpoint::kAllParts), "optimizer.momentum 0.9 0.8");
  std::filesystem::remove(path + ".old");
}

TEST_F(Resume, ARateThatWasSetComesBack) {
  const TrainerConfig config = config_of(test::kSgd);
  Trainer whole(new_instance(), config);
  whole.step(Batch(0).tensors());
  whole.set("learning_rate", 0.01);
  whole.step(Batch(1).tensors());
  save_checkpoint(whole, path, checkpoint::kAllParts, {});
  Trainer resumed(new_instance(), config);
  load_checkpoint(resumed, CheckpointReader::open(path), checkpoint::kAllParts);
  whole.step(Batch(2).tensors());
  EXPECT_EQ(resumed.step(Batch(2).tensors()).learning_rate, 0.01);
  EXPECT_EQ(persistent_bytes(resumed.instance()), persistent_bytes(whole.instance()));
}

TEST_F(Resume, TheFileTellsUpdatesAndLossScale) {
  TrainerConfig config = config_of(test::kSgd);
  config.loss_scale.mode = "dynamic";
  Trainer trainer(new_instance(), config);
  Batch bad(0);
  bad.images[7] = INFINITY;
  ASSERT_TRUE(trainer.step(bad.tensors()).skipped);
  for (int i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());
  save_checkpoint(trainer, path, checkpoint::kAllParts, {});
  const CheckpointReader reader = CheckpointReader::open(path);
  EXPECT_EQ(reader.state().step, 4);
  EXPECT_EQ(reader.state().updates, 3);
  EXPECT_EQ(reader.state().loss_scale.value().scale, 32768);
  EXPECT_EQ(reader.state().loss_scale.value().growth_counter, 3);

  Trainer plain(new_instance(), config_of(test::kSgd));
  save_checkpoint(plain, path, checkpoint::kAllParts, {});
  EXPECT_FALSE(CheckpointReader::open(path).state().loss_scale.has_value());
}

TEST_F(Resume, AHeldScheduleGoesOnFromTheUpdatesDone) {
  TrainerConfig config = config_of(test::kSgd);
  config.schedule = {.name = "polynomial", .total_steps = 5, .on_skip = "hold"};
  config.loss_scale.mode = "dynamic";
  Trainer whole(new_instance(), config);
  Batch bad(0);
  bad.images[7] = INFINITY;
  ASSERT_TRUE(whole.step(bad.tensors()).skipped);
  whole.step(Batch(1).tensors());
  save_checkpoint(whole, path, checkpoint::kAllParts, {});

  Trainer second(new_instance(), config);
  load_checkpoint(second, CheckpointReader::open(path), checkpoint::kAllParts);
  EXPECT_EQ(second.update_count(), 1);
  const double rate = whole.step(Batch(2).tensors()).learning_rate;
  EXPECT_DOUBLE_EQ(rate, 0.05 * 0.8);
  EXPECT_EQ(second.step(Batch(2).tensors()).learning_rate, rate);
  EXPECT_EQ(persistent_bytes(second.instance()), persistent_bytes(whole.instance()));
}

TEST_F(Resume, AFileThatCannotBeReadToItsEndChangesNothing) {
  Trainer source(new_instance(), config_of(test::kSgd));
  source.step(Batch(0).tensors());
  save_checkpoint(source, path, checkpoint::kAllParts, {});
  Trainer trainer(new_instance(), config_of(test::kSgd));
  const auto before = persistent_bytes(trainer.instance());
  for (int reads = 0;; ++reads) {
    int left = 1000;
    const auto reader = CheckpointReader::open(std::make_unique<FailingSource>(path, left));
    left = reads;
    try {
      load_checkpoint(trainer, reader, checkpoint::kAllParts);
      EXPECT_GT(reads, 10);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kIo);
      ASSERT_EQ(persistent_bytes(trainer.instance()), before) << "read " << reads;
    }
  }
  EXPECT_EQ(persistent_bytes(trainer.instance()), persistent_bytes(source.instance()));
}

// Averages of weights that are gone mean nothing.
TEST_F(Resume, MomentsWithoutTrainerStateLoad) {
  constexpr uint32_t kParts = checkpoint::kWeights | checkpoint::kStatistics | checkpoint::kMoments;
  Trainer source(new_instance(), config_of(test::kSgd));
  source.step(Batch(0).tensors());
  save_checkpoint(source, path, kParts, {});
  const auto instance = new_instance();
  Trainer target(instance, config_of(test::kSgd));
  load_checkpoint(target, CheckpointReader::open(path), kParts);
  const Segments& from = source.instance().segments();
  for (const SegmentTensor& moment : instance->segments().all()) {
    if (moment.role != Role::kMoment1) continue;
    const auto saved = from.tensor(moment.variable->name, Role::kMoment1);
    EXPECT_EQ(std::memcmp(moment.data, saved.data, saved.bytes()), 0) << moment.variable->name;
  }
}

TEST_F(Resume, AveragesStartAgainFromWeightsThatComeWithoutThem) {
  const TrainerConfig config = config_of(R"({"optimizer":
      {"name": "sgd", "learning_rate": 0.05, "ema_decay": 0.9}})");
  Trainer source(new_instance(), config_of(test::kSgd));
  source.step(Batch(0).tensors());
  save_checkpoint(source, path, checkpoint::kWeights | checkpoint::kStatistics, {});
  const auto expect_averages_equal_weights = [](const ModelInstance& instance) {
    for (const SegmentTensor& average : instance.segments().all()) {
      if (average.role != Role::kEma) continue;
      const auto value = instance.segments().tensor(average.variable->name, Role::kValue);
      EXPECT_EQ(std::memcmp(average.data, value.data, value.bytes()), 0) << value.variable->name;
    }
  };
  const auto instance = new_instance();
  {
    Trainer trainer(instance, config);
    for (int i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());
    load_checkpoint(trainer, CheckpointReader::open(path),
                    checkpoint::kWeights | checkpoint::kStatistics);
    expect_averages_equal_weights(*instance);
    for (int i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());
  }
  load_weights(*instance, CheckpointReader::open(path));
  expect_averages_equal_weights(*instance);
}

TEST_F(Resume, ACheckpointInTheMiddleOfAnAccumulationIsRefused) {
  TrainerConfig config = config_of(test::kSgd);
  config.accumulate = 2;
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  EXPECT_THROW(save_checkpoint(trainer, path, checkpoint::kAllParts, {}), Error);
  trainer.step(Batch(1).tensors());
  save_checkpoint(trainer, path, checkpoint::kAllParts, {});
}

}  // namespace
}  // namespace assay::train
