// What the engine needs to know of a model: its inputs, and how to write its forward into a graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sdk/nn/builder.h"
#include "sdk/nn/layers.h"

namespace assay::nn {

// Immutable; may be used from many threads.
class Model {
 public:
  virtual ~Model() = default;
  // Its name in models/models.h.
  virtual std::string architecture() const = 0;
  // The complete configuration as JSON, defaults filled in.
  virtual std::string config_json() const = 0;
  // The tensors of a batch, in the order the trainer takes them. The predictor takes those that are
  // not labels.
  virtual std::vector<InputSpec> inputs() const = 0;
  // Emits the forward for b.mode(): the loss and named outputs.
  virtual Head forward(Builder& b, float label_smoothing) const = 0;
};

}  // namespace assay::nn
