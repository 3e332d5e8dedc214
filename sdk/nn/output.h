// What a network gives by name: losses, counts, logits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay::nn {

// How the values of the batches of an evaluation become one.
enum class Reduction : int32_t {
  kMean,  // sum of the values / sum of the weights: the value of a batch is a sum over what counts
  kSum,
  kLast,  // tensors, such as logits: those of the last batch
};

struct Output {
  std::string name;
  ValueId value;
  Reduction reduction = Reduction::kLast;
  // [] f32: how many rows, pixels or tokens of the batch `value` sums up; of kMean in evaluation.
  ValueId weight = {};
};

// The loss of a training graph is the output "loss", f32 [], a mean over the batch.
using Outputs = std::vector<Output>;
inline constexpr std::string_view kLoss = "loss";

}  // namespace assay::nn
