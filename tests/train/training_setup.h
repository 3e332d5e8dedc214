// A small model, made-up data and helpers shared by the tests of training.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/base/philox.h"
#include "sdk/base/proto_json.h"
#include "sdk/train/trainer.h"

namespace assay::train::test {

inline constexpr int64_t kBatch = 16;
inline const char* const kSmallCnn =
    R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16], "dropout": 0.25})";
inline const char* const kSgd =
    R"({"optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}, "seed": 3})";

// Images whose brightest quadrant depends on the label, plus noise: learnable in a few steps.
struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  int64_t rows;

  explicit Batch(uint64_t index, int64_t n = kBatch)
      : images(static_cast<size_t>(n) * 144), labels(n), rows(n) {
    PhiloxStream random(99, index);
    for (int64_t i = 0; i < n; ++i) {
      labels[i] = static_cast<int32_t>(random.below(10));
      for (int64_t p = 0; p < 144; ++p) {
        const bool bright = (p / 12 / 3 * 4 + p % 12 / 3) % 10 == labels[i];
        images[i * 144 + p] = random.uniform(0, 0.5f) + (bright ? 1.0f : 0.0f);
      }
    }
  }
  std::vector<HostTensor> tensors() const {
    return {{DType::kF32, {rows, 12, 12, 1}, images.data()}, {DType::kI32, {rows}, labels.data()}};
  }
};

inline TrainerConfig config_of(const std::string& json, int64_t batch = kBatch) {
  TrainerConfig config;
  parse_json(json, config, "test");
  config.batch_size = batch;
  return config;
}

inline std::shared_ptr<ModelInstance> new_instance(int threads = 2,
                                                   const std::string& model = kSmallCnn,
                                                   const std::string& name = "cnn") {
  return std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(name, model)),
      std::shared_ptr<Backend>(cpu::make_backend({.threads = threads})));
}

// Sums over a classifier's evaluation batch.
struct EvalSums {
  double loss = 0, top1 = 0, top5 = 0;
  int64_t samples = 0;
};
inline EvalSums evaluate(Trainer& trainer, std::span<const HostTensor> batch,
                         bool use_ema = false) {
  const EvalOutputs& outputs = trainer.eval(batch, use_ema);
  const EvalOutput loss = find_output(outputs, "loss");
  return {loss.value, find_output(outputs, "top1").value, find_output(outputs, "top5").value,
          static_cast<int64_t>(loss.weight)};
}

// Every byte of every persistent tensor except gradients, which only live between backward and
// apply.
inline std::vector<std::byte> persistent_bytes(const ModelInstance& instance) {
  std::vector<std::byte> all;
  for (const SegmentTensor& tensor : instance.segments().all()) {
    if (tensor.role == Role::kGradient) continue;
    const size_t begin = all.size();
    all.resize(begin + tensor.bytes());
    instance.backend()->read(all.data() + begin, tensor.data, tensor.bytes());
  }
  return all;
}

inline std::vector<float> values_of(const ModelInstance& instance, std::string_view name,
                                    Role role) {
  const SegmentTensor tensor = instance.segments().tensor(name, role);
  std::vector<float> values(tensor.bytes() / sizeof(float));
  instance.backend()->read(values.data(), tensor.data, tensor.bytes());
  return values;
}

// The message of what the action throws, which has this code.
inline std::string error_of(const std::function<void()>& action, Code expected = Code::kInvalid) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace assay::train::test
