// The model behind assay_model: its description, and its variables once something needs them.
#pragma once

#include <memory>
#include <optional>

#include "assay/assay.h"
#include "capi/src/access.h"
#include "capi/src/context.h"
#include "sdk/train/model_instance.h"

namespace assay::capi {

// Shared by the model's handle, its trainer and the views of its tensors.
class ModelState {
 public:
  ModelState(std::shared_ptr<const Context> context, std::shared_ptr<const nn::Model> model)
      : context_(std::move(context)), model_(std::move(model)) {}

  const Context& context() const { return *context_; }
  const std::shared_ptr<const Context>& shared_context() const { return context_; }
  const std::shared_ptr<const nn::Model>& model() const { return model_; }
  Access& access() const { return access_; }

  // The variables; made at the first call, which needs exclusive use.
  const std::shared_ptr<train::ModelInstance>& make_instance();
  // Fails with kInvalid if the model has no weights yet.
  train::ModelInstance& initialized_instance() const;
  bool initialized() const { return instance_ != nullptr && instance_->initialized(); }

  std::atomic<bool> has_trainer{false};  // set under access(), cleared by any thread

 private:
  std::shared_ptr<const Context> context_;
  std::shared_ptr<const nn::Model> model_;
  std::shared_ptr<train::ModelInstance> instance_;
  mutable Access access_;
};

}  // namespace assay::capi

struct assay_model {
  std::shared_ptr<assay::capi::ModelState> impl;
};
