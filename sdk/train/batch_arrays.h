// From the tensors a caller gives to the bytes a program's inputs hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sdk/nn/input.h"
#include "sdk/runtime/program.h"
#include "sdk/train/host_tensor.h"

namespace assay::train {

// The inputs of one kind of batch: those that are given, then those that are drawn for it. Not
// thread-safe. What it makes of a batch is kept until the next.
class BatchArrays {
 public:
  BatchArrays(std::vector<nn::InputSpec> inputs, int64_t rows, uint64_t seed);

  std::span<const nn::InputSpec> given() const { return {inputs_.data(), given_}; }
  std::vector<size_t> bytes() const;  // by input

  // As check_batch, for those that are given.
  void check(std::string_view architecture, std::span<const HostTensor> batch) const;
  // How many sixteenths of the batch's places, rounded up, hold something: 1 to 16. All where no
  // input counts them.
  int filled_sixteenths(std::span<const HostTensor> batch) const;
  // The elements of every input for batch number `index`, which was checked.
  std::span<const void* const> collect(std::span<const HostTensor> batch, int64_t index);
  // Where the program reads them.
  std::span<void* const> places_in(const Program& program);
  // Copies them there.
  void write(Program& program, std::span<const HostTensor> batch, int64_t index);

 private:
  std::vector<nn::InputSpec> inputs_;
  size_t given_;
  int64_t rows_;
  uint64_t seed_;
  std::vector<std::vector<std::byte>> made_;  // by input: what is no tensor of the caller's
  std::vector<const void*> elements_;
  std::vector<void*> places_;
};

}  // namespace assay::train
