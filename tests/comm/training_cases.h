// What holds for trainers on every kind of channel, asked by one of its ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/base/philox.h"
#include "sdk/comm/channel.h"
#include "sdk/data/detection_records.h"
#include "sdk/train/trainer_checkpoint.h"
#include "tests/train/training_setup.h"

namespace assay::test {

struct Network {
  const char *name, *config, *wire = "fp32";
  uint64_t updates = 20;
};
inline constexpr Network kNetworks[] = {
    {"cnn", R"({"image": [12, 12, 1], "conv": [4], "hidden": [16], "batch_norm": true})"},
    {"cnn", R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16], "dropout": 0.25})"},
    {"cnn", R"({"image": [12, 12, 1], "conv": [4], "hidden": [16], "batch_norm": true})", "fp16"},
    {"bert_base", R"({"vocabulary": 40, "hidden": 16, "layers": 2, "heads": 2, "inner": 32,
                      "positions": 12})"}};

// Statistics of norms, averages of both, sums of losses over what images hold. Minutes on an
// emulated GPU.
inline constexpr Network kDetector{"efficientdet_d0", R"({"classes": 3, "width": 8, "cells": 1})",
                                   "fp32", 2};

// Words that depend on the batch's number alone.
struct Words {
  static constexpr int64_t kRows = 3, kLength = 10, kSlots = 2;
  std::vector<int32_t> ids, types, length, places, labels, next;
  explicit Words(uint64_t number) {
    PhiloxStream random(17, number);
    const auto draw = [&](std::vector<int32_t>& to, int64_t n, uint32_t end) {
      for (int64_t i = 0; i < n; ++i) to.push_back(static_cast<int32_t>(random.below(end)));
    };
    draw(ids, kRows * kLength, 40), draw(types, kRows * kLength, 2), draw(length, kRows, 6);
    for (int32_t& value : length) value += 5;
    draw(places, kRows * kSlots, 5), draw(labels, kRows * kSlots, 40), draw(next, kRows, 2);
  }
  std::vector<train::HostTensor> tensors() const {
    const auto tensor = [](const std::vector<int32_t>& values, Dims dims) {
      return train::HostTensor{DType::kI32, dims, values.data()};
    };
    return {tensor(ids, {kRows, kLength}),   tensor(types, {kRows, kLength}),
            tensor(length, {kRows}),         tensor(places, {kRows, kSlots}),
            tensor(labels, {kRows, kSlots}), tensor(next, {kRows})};
  }
};

// Likewise noise with a square in each image.
struct Objects {
  static constexpr int64_t kRows = 2, kSize = 128, kMost = data::kMostBoxes;
  std::vector<float> image, boxes = std::vector<float>(kRows * kMost * 4);
  std::vector<int32_t> classes = std::vector<int32_t>(kRows * kMost, -1), count;
  explicit Objects(uint64_t number) {
    PhiloxStream random(18, number);
    for (int64_t i = 0; i < kRows * kSize * kSize * 3; ++i) image.push_back(random.uniform(-1, 1));
    for (size_t row = 0; row < kRows; ++row) {
      const float first = random.uniform(0, 60), last = first + random.uniform(20, 60);
      std::ranges::copy(std::array{first, first, last, last},
                        boxes.begin() + static_cast<int64_t>(row * kMost * 4));
      classes[row * kMost] = static_cast<int32_t>(random.below(3));
      count.push_back(1);
    }
  }
  std::vector<train::HostTensor> tensors() const {
    return {{DType::kF32, {kRows, kSize, kSize, 3}, image.data()},
            {DType::kF32, {kRows, kMost, 4}, boxes.data()},
            {DType::kI32, {kRows, kMost}, classes.data()},
            {DType::kI32, {kRows}, count.data()}};
  }
};

// What the channel's rank computes on.
using BackendOfRank = std::function<std::shared_ptr<Backend>()>;
inline std::shared_ptr<Backend> one_thread() { return cpu::make_backend({.threads = 1}); }

// A trainer of the network, alone or as one device of the channel's.
struct Training {
  Training(const Network& chosen, int devices, int64_t batches, std::shared_ptr<Channel> channel,
           uint64_t first_weights = 0, const BackendOfRank& backend = one_thread)
      : name(chosen.name),
        instance(std::make_shared<train::ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model(chosen.name, chosen.config)),
            backend())) {
    if (first_weights > 0) instance->ensure_initialized(first_weights);
    train::TrainerConfig config = train::test::config_of(
        R"({"optimizer": {"name": "adamw", "learning_rate": 1e-2, "clip_norm": 1}, "seed": 3})",
        is("bert_base")         ? Words::kRows
        : is("efficientdet_d0") ? Objects::kRows
                                : train::test::kBatch);
    config.emulated_devices = devices, config.accumulate = batches;
    config.gradient_wire = chosen.wire;
    if (is("bert_base"))
      config.sequence_length = Words::kLength, config.prediction_slots = Words::kSlots;
    if (is("efficientdet_d0")) config.image_size = {Objects::kSize, Objects::kSize};
    trainer = std::make_unique<train::Trainer>(instance, config, std::move(channel));
  }
  bool is(std::string_view other) const { return name == other; }
  void step(uint64_t number) const {
    if (is("bert_base"))
      trainer->step(Words(number).tensors());
    else if (is("efficientdet_d0"))
      trainer->step(Objects(number).tensors());
    else
      trainer->step(train::test::Batch(number).tensors());
  }
  std::vector<std::byte> bytes() const { return train::test::persistent_bytes(*instance); }

  std::string_view name;
  std::shared_ptr<train::ModelInstance> instance;
  std::unique_ptr<train::Trainer> trainer;
};

// Some updates of the channel's devices, of `each` batches on each, end in the bits of one
// trainer that plays them all, statistics of the devices included. Weights that differ at first do
// not matter: rank 0's count.
inline void expect_bits_of_emulation(const std::shared_ptr<Channel>& channel,
                                     const Network& network, const std::string& folder,
                                     const BackendOfRank& backend = one_thread) {
  const int devices = channel->size();
  const Training one(network, devices, devices, channel, static_cast<uint64_t>(channel->rank()) + 1,
                     backend);
  const Training all(network, devices, devices, nullptr, 1, backend);
  const auto n = static_cast<uint64_t>(devices), rank = static_cast<uint64_t>(channel->rank());
  for (uint64_t update = 0; update < network.updates; ++update) {
    one.step(update * n + rank);
    for (uint64_t device = 0; device < n; ++device) all.step(update * n + device);
  }
  EXPECT_EQ(one.instance->segments().save(Role::kValue).bytes,
            all.instance->segments().save(Role::kValue).bytes);
  EXPECT_EQ(one.trainer->sample_count(), all.trainer->sample_count());
  // The file that rank 0 writes is that of the emulation, so each goes on from the other's.
  const std::string theirs = folder + "/ranks.ckpt", ours = folder + "/emulated.ckpt";
  train::save_checkpoint(*one.trainer, theirs, checkpoint::kAllParts, {});
  if (rank == 0) train::save_checkpoint(*all.trainer, ours, checkpoint::kAllParts, {});
  channel->gather("");  // written
  const auto load = [](const Training& training, const std::string& path) {
    const auto reader = checkpoint::CheckpointReader::open(path);
    train::load_checkpoint(*training.trainer, reader, checkpoint::kAllParts);
  };
  load(one, ours), load(all, theirs);
  for (uint64_t update = network.updates; update < network.updates + 3; ++update) {
    one.step(update * n + rank);
    for (uint64_t device = 0; device < n; ++device) all.step(update * n + device);
  }
  EXPECT_EQ(one.instance->segments().save(Role::kValue).bytes,
            all.instance->segments().save(Role::kValue).bytes);
  if (rank == 0) {
    EXPECT_EQ(one.bytes(), all.bytes());
  }
}

// Several batches on each device are summed there first, and once between the devices.
inline void expect_accumulation_on_each_device(const std::shared_ptr<Channel>& channel,
                                               const BackendOfRank& backend = one_thread) {
  const int devices = channel->size();
  const Training one(kNetworks[1], devices, 3 * devices, channel, 0, backend);
  const Training same(kNetworks[1], devices, 3 * devices, nullptr, 0, backend);
  const auto n = static_cast<uint64_t>(devices), rank = static_cast<uint64_t>(channel->rank());
  for (uint64_t batch = 0; batch < 6; ++batch) {
    one.step(batch * n + rank);
    for (uint64_t device = 0; device < n; ++device) same.step(batch * n + device);
  }
  EXPECT_EQ(one.trainer->update_count(), 2);
  // Another order of the sum: close, and the same on every rank.
  const auto as_floats = [](const Training& training) {
    const auto bytes = training.instance->segments().save(Role::kValue).bytes;
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  };
  const std::vector<float> mine = as_floats(one), reference = as_floats(same);
  for (size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], reference[i], 1e-5) << i;
  const auto bytes = std::as_bytes(std::span(mine));
  const auto all = channel->gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (const std::string& theirs : all) EXPECT_EQ(theirs, all[0]);
}

// A batch that is no number on one rank changes nothing on any.
inline void expect_refused_everywhere(const std::shared_ptr<Channel>& channel,
                                      const BackendOfRank& backend = one_thread) {
  const int devices = channel->size();
  const Training one(kNetworks[0], devices, devices, channel, 0, backend);
  one.step(static_cast<uint64_t>(channel->rank()));
  const auto before = one.bytes();
  train::test::Batch broken(7);
  if (channel->rank() == devices - 1) broken.images[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    one.trainer->step(broken.tensors());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNonFinite);
  }
  EXPECT_EQ(one.bytes(), before);
  one.step(static_cast<uint64_t>(int64_t{devices} + channel->rank()));  // and it goes on
}

// Each rank another file: nobody loads any.
inline void expect_other_files_refused(const std::shared_ptr<Channel>& channel,
                                       const std::string& folder) {
  const int devices = channel->size();
  const Training one(kNetworks[0], devices, devices, channel);
  for (int step = 0; step < 2; ++step) {
    train::save_checkpoint(*one.trainer, cat(folder, "/", step), checkpoint::kAllParts, {});
    one.step(static_cast<uint64_t>(step));
  }
  channel->gather("");  // written
  const auto before = one.bytes();
  const auto reader =
      checkpoint::CheckpointReader::open(cat(folder, "/", channel->rank() == 0 ? 0 : 1));
  try {
    train::load_checkpoint(*one.trainer, reader, checkpoint::kAllParts);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kComm);
    EXPECT_NE(error.message().find("rank 1 has another checkpoint than rank 0: step 1"),
              std::string::npos)
        << error.message();
  }
  EXPECT_EQ(one.bytes(), before);
}

inline void expect_other_configurations_refused(const std::shared_ptr<Channel>& channel) {
  try {
    const Training one(kNetworks[0], channel->size(), channel->size() * (1 + channel->rank() % 2),
                       channel);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kComm);
    EXPECT_EQ(error.message(), cat("rank 1 has trainer.accumulate \"", 2 * channel->size(),
                                   "\", rank 0 has \"", channel->size(), '"'));
  }
}

}  // namespace assay::test
