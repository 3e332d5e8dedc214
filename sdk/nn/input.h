// What a network takes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"

namespace assay::nn {

enum class Mode : int32_t {
  kTrain,    // batch statistics, dropout; the loss is a mean over the batch
  kEval,     // running statistics, no dropout; losses and counts are sums over what counts
  kPredict,  // running statistics, no labels, no loss
};

// Integers in [low, high).
struct IndexRange {
  int64_t low = 0, high = 0;
};

// One tensor of a batch as a model wants it.
struct InputSpec {
  std::string name;
  DType dtype = DType::kF32;
  Dims sample;  // without the batch axis
  // Known only where the answer is: prediction does without.
  bool is_label = false;
  // Of integers, which kernels take as indices: others are refused before any kernel reads them.
  std::optional<IndexRange> range = std::nullopt;
  // An integer outside of `range` that is allowed too: it says that there is nothing.
  std::optional<int64_t> padding = std::nullopt;
  // How many places of a sample hold something; those behind them are padding.
  bool counts_places = false;
  // Not given by the caller but drawn on the host: fills [rows, sample...] for batch number `index`
  // of a training with this seed, always with the same.
  std::function<void(uint64_t seed, int64_t index, int64_t rows, void* to)> draw = nullptr;
};

// "image and label": for messages.
std::string names_of(std::span<const InputSpec> inputs);

}  // namespace assay::nn
