// A model that holds the weights of a fixture, and what tests that compare with one need.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/models.h"
#include "sdk/base/proto_json.h"
#include "sdk/train/trainer.h"
#include "sdk/train/trainer_config.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/fixture.h"

namespace assay::test {

using namespace train;

inline HostTensor host(const FixtureTensor& tensor) {
  return tensor.f32.empty() ? HostTensor{DType::kI32, tensor.dims, tensor.i32.data()}
                            : HostTensor{DType::kF32, tensor.dims, tensor.f32.data()};
}

// A model on the backend under test holding the weights and statistics of a fixture; those of the
// part `without` are of another form of the model.
struct Loaded {
  Loaded(const std::string& architecture, const std::string& config, const Fixture& fixture,
         int threads = 2, const std::optional<std::string>& without = std::nullopt)
      : instance(std::make_shared<ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model(architecture, config)),
            std::shared_ptr<Backend>(make_backend_under_test(threads)))) {
    for (const auto& [name, tensor] : fixture.with_prefix("initial.")) {
      if (without && name.starts_with(*without)) continue;
      const Role role = instance->variables().find(name)->role;
      const SegmentTensor target = instance->segments().tensor(name, role);
      EXPECT_EQ(target.variable->dims, tensor->dims) << name;
      instance->backend()->write(target.data, tensor->f32.data(), target.bytes());
    }
    instance->mark_initialized();
  }
  std::vector<float> read(const std::string& name, Role role) const {
    const SegmentTensor tensor = instance->segments().tensor(name, role);
    std::vector<float> values(tensor.bytes() / 4);
    instance->backend()->read(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  std::shared_ptr<ModelInstance> instance;
};

inline TrainerConfig config_of(const std::string& json, int64_t batch) {
  TrainerConfig config;
  parse_json(json, config, "test");
  config.batch_size = batch;
  return config;
}

inline std::vector<float> read_output(Program& program, const std::string& name) {
  const Program::Port& port = program.output(name);
  std::vector<float> values(static_cast<size_t>(port.type.numel()));
  program.backend().read(values.data(), port.data, port.type.bytes());
  return values;
}

}  // namespace assay::test
