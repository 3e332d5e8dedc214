// What the engine needs to know of a model: its inputs, and how to write its forward into a graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sdk/nn/builder.h"
#include "sdk/nn/output.h"
#include "sdk/nn/training_options.h"

namespace assay::nn {

// Immutable; may be used from many threads.
class Model {
 public:
  virtual ~Model() = default;
  // Its name in models/models.h.
  virtual std::string architecture() const = 0;
  // The complete configuration as JSON, defaults filled in.
  virtual std::string config_json() const = 0;
  // The tensors of a batch, in the order they are given; those that are drawn come last.
  virtual std::vector<InputSpec> inputs(Mode mode) const = 0;
  // Emits the forward for b.mode() and names what it gives.
  virtual Outputs forward(Builder& b) const = 0;
  // The same network, trained with these options, which are not the defaults. kInvalid or
  // kUnsupported, naming the option, from one that has no use for it; so are those that do not
  // override this.
  virtual std::shared_ptr<const Model> configured(const TrainingOptions& options) const;
};

}  // namespace assay::nn
