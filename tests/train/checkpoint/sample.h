// Small checkpoints for the tests, and ways to hold them in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::checkpoint {

// Tensors that own their elements; records() borrows from them.
class SampleTensors {
 public:
  // Elements are a pattern of `seed`, every byte value included.
  void add(std::string name, Role role, DType dtype, Dims dims, unsigned seed = 1) {
    auto& data = storage_.emplace_back(std::make_unique<std::vector<std::byte>>(
        static_cast<size_t>(dims.numel()) * dtype_size(dtype)));
    for (std::byte& byte : *data) {
      seed = seed * 1664525u + 1013904223u;
      byte = static_cast<std::byte>(seed >> 24);
    }
    records_.push_back({std::move(name), role, dtype, dims, *data});
  }
  const std::vector<TensorRecord>& records() const { return records_; }

 private:
  std::vector<std::unique_ptr<std::vector<std::byte>>> storage_;
  std::vector<TensorRecord> records_;
};

inline CheckpointState sample_state() {
  CheckpointState state;
  state.created_unix_s = 1700000000;
  state.step = 1234;
  state.updates = 1230;
  state.batches = 2469;
  state.samples = 157952;
  state.seed = 0xFEDCBA9876543210;
  state.loss_scale = LossScale{65536.0, 77};
  state.optimizer_name = "sgd";
  state.optimizer_config = R"({"momentum":0.9})";
  state.schedule_config = R"({"kind":"cosine"})";
  state.model_name = "resnet18";
  state.model_config = R"({"classes":10})";
  state.precision = "amp-bf16";
  state.data_cursor = std::string("\0\1\xFF cursor", 10);
  state.metadata = {{"assay.recipe", "fmnist"}, {"note", "gr\xC3\xBC\xC3\x9F"}};
  return state;
}

inline SampleTensors sample_tensors() {
  SampleTensors tensors;
  tensors.add("conv1.weight", Role::kValue, DType::kF32, {2, 3, 3, 1}, 1);
  tensors.add("conv1.weight", Role::kMoment1, DType::kF32, {2, 3, 3, 1}, 2);
  tensors.add("fc.weight", Role::kValue, DType::kBf16, {5, 7}, 3);
  tensors.add("fc.weight", Role::kGradient, DType::kF32, {5, 7}, 4);
  tensors.add("bn.mean", Role::kStatistic, DType::kF64, {3}, 5);
  tensors.add("scalar", Role::kState, DType::kI64, {}, 6);
  tensors.add("empty", Role::kValue, DType::kF16, {0, 4}, 7);
  tensors.add("half", Role::kEma, DType::kF16, {1, 2, 3}, 8);
  tensors.add("labels", Role::kMoment2, DType::kI32, {4}, 9);
  tensors.add("bytes", Role::kValue, DType::kU8, {1, 1, 5}, 10);
  return tensors;
}

// Keeps what was written in `bytes`.
class StringSink : public ByteSink {
 public:
  void write(const void* data, size_t count) override {
    bytes.append(static_cast<const char*>(data), count);
  }
  void commit() override { committed = true; }
  std::string bytes;
  bool committed = false;
};

inline std::string write_to_string(const CheckpointState& state,
                                   const std::vector<TensorRecord>& records) {
  StringSink sink;
  write_checkpoint(sink, state, records);
  return sink.bytes;
}

inline CheckpointReader open_string(std::string bytes) {
  return CheckpointReader::open(std::make_unique<MemorySource>(std::move(bytes), "sample"));
}

// The code and text of the Error that `call` raises; kOk when it raises none.
struct Outcome {
  Code code = Code::kOk;
  std::string message;
};
template <class Call>
Outcome outcome_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.message()};
  }
  return {};
}

}  // namespace assay::checkpoint
