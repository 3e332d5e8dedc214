// Several devices played one after another: the update of one accumulation over their shards is
// that of the mean of their gradients, bit for bit, with the dropout each device would draw for
// itself; and evaluations of shards merge to the whole.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/base/philox.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/loader.h"
#include "sdk/train/trainer.h"
#include "sdk/train/trainer_checkpoint.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

constexpr int kDevices = 8, kBatch = 3;
constexpr int64_t kImage = 32 * 32, kTarget = 16 * 16 * 2;

// Slice i as image and target, made of its number and of what is drawn for it.
class SliceMaker : public data::SampleMaker {
 public:
  void prepare(std::string_view record, std::string& prepared) override { prepared = record; }
  void finish(std::string_view prepared, PhiloxStream& random,
              std::span<std::byte* const> arrays) override {
    auto* image = reinterpret_cast<float*>(arrays[0]);
    auto* target = reinterpret_cast<float*>(arrays[1]);
    const int slice = static_cast<uint8_t>(prepared[0]);
    for (int64_t i = 0; i < kImage; ++i)
      image[i] = random.uniform(-1, 1) + (i / 4 % (slice + 2) == 0 ? 1.0f : 0.0f);
    for (int64_t i = 0; i < kTarget; i += 2) {
      target[i] = i / 8 % (slice + 2) == 0 ? 1.0f : 0.0f;
      target[i + 1] = 1 - target[i];
    }
  }
};

std::unique_ptr<data::Loader> loader_of(int rank) {
  std::vector<std::string> slices;
  for (char i = 0; i < 24; ++i) slices.emplace_back(1, i);
  data::LoaderConfig config;
  config.batch_size = kBatch, config.order = "stream", config.workers = 0;
  config.rank = rank, config.world_size = kDevices;
  data::Transform transform{
      {{"image", DType::kF32, {32, 32, 1}, 0}, {"target", DType::kF32, {16, 16, 2}, 0}},
      [] { return std::make_unique<SliceMaker>(); }};
  return std::make_unique<data::Loader>(std::make_shared<data::MemorySource>(slices),
                                        std::move(transform), config);
}

std::vector<HostTensor> tensors(const data::Batch& batch) {
  std::vector<HostTensor> out;
  for (const data::BatchArray& array : batch.arrays())
    out.push_back({array.dtype, array.dims, array.data});
  return out;
}

struct Training {
  Training(int64_t accumulate, double dropout)
      : instance(std::make_shared<ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model(
                "unet_medical", cat(R"({"image": [32, 32, 1], "width": 3, "depth": 1, "dropout": )",
                                    dropout, "}"))),
            std::shared_ptr<Backend>(cpu::make_backend({.threads = 1})))) {
    TrainerConfig config;
    parse_json(R"({"optimizer": {"name": "adam", "learning_rate": 1e-2, "epsilon_form":
                   "tensorflow"}})",
               config, "test");
    config.batch_size = kBatch;
    config.accumulate = accumulate;
    trainer = std::make_unique<Trainer>(instance, config);
  }
  std::vector<float> read(Role role) const {
    std::vector<float> all;
    for (const SegmentTensor& tensor : instance->segments().all()) {
      if (tensor.role != role) continue;
      const auto* values = static_cast<const float*>(tensor.data);
      all.insert(all.end(), values, values + tensor.bytes() / sizeof(float));
    }
    return all;
  }
  void write(Role role, const std::vector<float>& values) const {
    const float* from = values.data();
    for (const SegmentTensor& tensor : instance->segments().all()) {
      if (tensor.role != role) continue;
      instance->backend()->write(tensor.data, from, tensor.bytes());
      from += tensor.bytes() / sizeof(float);
    }
  }
  std::shared_ptr<ModelInstance> instance;
  std::unique_ptr<Trainer> trainer;
};

// The gradient of one batch alone, on a device that has drawn `batches` times before.
std::vector<float> gradient_of(const data::Batch& batch, const std::vector<float>& weights,
                               int64_t batches, double dropout) {
  const Training device(1, dropout);
  device.write(Role::kValue, weights);
  Progress place = device.trainer->progress();
  place.batches = batches;
  device.trainer->restore(place);
  device.trainer->backward(tensors(batch));
  return device.read(Role::kGradient);
}

void expect_accumulation_is_mean(double dropout) {
  const Training together(kDevices, dropout);
  const Training apart(1, dropout);  // updates from the mean of what each device finds alone
  std::vector<std::unique_ptr<data::Loader>> mine, theirs;
  for (int rank = 0; rank < kDevices; ++rank) {
    mine.push_back(loader_of(rank)), theirs.push_back(loader_of(rank));
  }
  for (int step = 0; step < 3; ++step) {
    for (const auto& loader : mine) together.trainer->step(tensors(*loader->next()));
    std::vector<float> sum;
    for (int rank = 0; rank < kDevices; ++rank) {
      const data::Batch& batch = *theirs[static_cast<size_t>(rank)]->next();
      const std::vector<float> gradient =
          gradient_of(batch, apart.read(Role::kValue), kDevices * step + rank, dropout);
      sum.resize(gradient.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
      if (rank == kDevices - 1) apart.trainer->backward(tensors(batch));  // any, for apply
    }
    for (float& value : sum) value /= kDevices;
    apart.write(Role::kGradient, sum);
    apart.trainer->apply();
    EXPECT_EQ(together.read(Role::kValue), apart.read(Role::kValue)) << "step " << step;
  }
}

TEST(Shards, OneAccumulationIsTheMeanOverTheDevices) { expect_accumulation_is_mean(0); }

TEST(Shards, EveryDeviceDrawsItsOwnDropout) { expect_accumulation_is_mean(0.5); }

TrainerConfig normalised_config(int64_t accumulate, int64_t devices) {
  TrainerConfig config = test::config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1},
      "loss_scale": {"mode": "dynamic", "initial": 8}})");
  config.accumulate = accumulate;
  config.emulated_devices = devices;
  return config;
}

std::shared_ptr<ModelInstance> normalised_model() {
  return test::new_instance(
      1, R"({"image": [12, 12, 1], "conv": [4], "hidden": [16], "batch_norm": true})");
}

void copy_role(const ModelInstance& from, ModelInstance& to, Role role) {
  to.segments().restore(from.segments().save(role));
}

// Beside one trainer that plays two devices, each of two batches an update, stand two that see the
// batches of one device only and are given the weights of the first.
TEST(Shards, EveryDeviceKeepsItsRunningStatistics) {
  Trainer together(normalised_model(), normalised_config(4, 2));
  Trainer first(normalised_model(), normalised_config(2, 1));
  Trainer second(normalised_model(), normalised_config(2, 1));
  Trainer* const apart[] = {&first, &second};
  const test::Batch held_out(99);
  for (int update = 0; update < 3; ++update) {
    for (Trainer* device : apart) copy_role(together.instance(), device->instance(), Role::kValue);
    for (int i = 0; i < 4; ++i) {
      const test::Batch batch(static_cast<uint64_t>(update * 4 + i));
      together.step(batch.tensors());
      apart[i % 2]->backward(batch.tensors());
    }
    for (Trainer* device : apart) device->apply();
    double losses[2];
    for (int device = 0; device < 2; ++device) {
      copy_role(together.instance(), apart[device]->instance(), Role::kValue);
      together.set("evaluated_device", device);
      losses[device] = test::evaluate(together, held_out.tensors()).loss;
      EXPECT_EQ(losses[device], test::evaluate(*apart[device], held_out.tensors()).loss);
    }
    EXPECT_NE(losses[0], losses[1]);
    const Segments& mine = together.instance().segments();
    EXPECT_EQ(mine.save(Role::kStatistic).bytes,
              first.instance().segments().save(Role::kStatistic).bytes);
  }
}

// A skipped update leaves the statistics of all devices as they were, a checkpoint brings them
// back, and those of a model alone become everyone's.
// In the middle of an accumulation, too, when the model has another device's.
TEST(Shards, AnEvaluationHasTheStatisticsOfItsDevice) {
  Trainer trainer(normalised_model(), normalised_config(4, 2));
  const test::Batch first(0), second(1), held_out(99);
  const auto loss_of = [&](int device) {
    trainer.set("evaluated_device", device);
    return test::evaluate(trainer, held_out.tensors()).loss;
  };
  trainer.backward(first.tensors());
  const double of_first = loss_of(0), of_second = loss_of(1);
  trainer.backward(second.tensors());
  EXPECT_EQ(loss_of(0), of_first);
  EXPECT_NE(loss_of(1), of_second);
}

TEST(Shards, StatisticsOfDevicesFollowUpdatesAndCheckpoints) {
  Trainer trainer(normalised_model(), normalised_config(2, 2));
  const test::Batch held_out(99);
  const auto losses = [&] {
    std::vector<double> found;
    for (int device = 0; device < 2; ++device) {
      trainer.set("evaluated_device", device);
      found.push_back(test::evaluate(trainer, held_out.tensors()).loss);
    }
    return found;
  };
  for (uint64_t i = 0; i < 2; ++i) trainer.step(test::Batch(i).tensors());
  const std::vector<double> before = losses();
  EXPECT_NE(before[0], before[1]);
  test::Batch broken(5);
  broken.images[0] = std::numeric_limits<float>::infinity();
  trainer.step(test::Batch(4).tensors());
  EXPECT_TRUE(trainer.step(broken.tensors()).skipped);
  EXPECT_EQ(losses(), before);
  const std::string path = testing::TempDir() + "shards_test.ckpt";
  save_checkpoint(trainer, path, checkpoint::kAllParts, {});
  const auto reader = checkpoint::CheckpointReader::open(path);
  for (uint64_t i = 6; i < 8; ++i) trainer.step(test::Batch(i).tensors());
  EXPECT_NE(losses(), before);
  load_checkpoint(trainer, reader, checkpoint::kAllParts);
  EXPECT_EQ(losses(), before);
  load_checkpoint(trainer, reader, checkpoint::kWeights | checkpoint::kStatistics);
  EXPECT_EQ(losses(), (std::vector<double>{before[0], before[0]}));
  std::filesystem::remove(path);
}

TEST(Shards, DevicesDivideTheBatchesOfAnUpdate) {
  try {
    const Trainer trainer(normalised_model(), normalised_config(4, 3));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(std::string(error.what()).find("a multiple of emulated_devices (3)"),
              std::string::npos)
        << error.what();
  }
}

// Images of 12 x 12 with a label, made of the sample's number.
class DigitMaker : public data::SampleMaker {
 public:
  void prepare(std::string_view record, std::string& prepared) override { prepared = record; }
  void finish(std::string_view prepared, PhiloxStream&,
              std::span<std::byte* const> arrays) override {
    const auto number = static_cast<uint8_t>(prepared[0]);
    PhiloxStream pixels(7, number);
    auto* image = reinterpret_cast<float*>(arrays[0]);
    for (int i = 0; i < 144; ++i) image[i] = pixels.uniform(-1, 1);
    *reinterpret_cast<int32_t*>(arrays[1]) = number % 10;
  }
};

// What a shard of 37 samples, which no number of ranks divides, evaluates to.
test::EvalSums evaluate_shard(Trainer& trainer, int rank, int world_size) {
  std::vector<std::string> samples;
  for (char i = 0; i < 37; ++i) samples.emplace_back(1, i);
  data::LoaderConfig config;
  config.batch_size = 4, config.order = "sequential", config.last_batch = "pad";
  config.workers = 0, config.epochs = 1;
  config.rank = rank, config.world_size = world_size;
  data::Transform transform{
      {{"image", DType::kF32, {12, 12, 1}, 0}, {"label", DType::kI32, {}, -1}},
      [] { return std::make_unique<DigitMaker>(); }};
  data::Loader loader(std::make_shared<data::MemorySource>(samples), std::move(transform), config);
  test::EvalSums sums;
  while (const data::Batch* batch = loader.next()) {
    const test::EvalSums part = test::evaluate(trainer, tensors(*batch));
    sums.samples += part.samples, sums.loss += part.loss;
    sums.top1 += part.top1, sums.top5 += part.top5;
  }
  return sums;
}

TEST(Shards, EvaluateToSumsThatMergeToTheWhole) {
  Trainer trainer(test::new_instance(2), test::config_of(test::kSgd, 4));
  for (int i = 0; i < 5; ++i) trainer.step(test::Batch(static_cast<uint64_t>(i), 4).tensors());
  const test::EvalSums whole = evaluate_shard(trainer, 0, 1);
  EXPECT_EQ(whole.samples, 37);
  EXPECT_GT(whole.top5, whole.top1);
  for (const int devices : {2, 3, 8}) {
    test::EvalSums merged;
    for (int rank = 0; rank < devices; ++rank) {
      const test::EvalSums shard = evaluate_shard(trainer, rank, devices);
      EXPECT_LE(shard.samples, 37 / devices + 4) << rank;
      EXPECT_LE(shard.top1, shard.top5) << rank;
      EXPECT_LE(shard.top5, static_cast<double>(shard.samples)) << rank;
      merged.samples += shard.samples, merged.loss += shard.loss;
      merged.top1 += shard.top1, merged.top5 += shard.top5;
    }
    EXPECT_EQ(merged.samples, whole.samples) << devices;
    EXPECT_EQ(merged.top1, whole.top1) << devices;
    EXPECT_EQ(merged.top5, whole.top5) << devices;
    EXPECT_NEAR(merged.loss, whole.loss, 1e-6 * whole.loss) << devices;
  }
}

}  // namespace
}  // namespace assay::train
