#include "sdk/train/model_instance.h"

namespace assay::train {

ModelInstance::ModelInstance(std::shared_ptr<const nn::Model> model,
                             std::shared_ptr<Backend> backend)
    : model_(std::move(model)), backend_(std::move(backend)), segments_(*backend_, variables_) {
  declare_variables();
  segments_.ensure(Role::kValue);
  segments_.ensure(Role::kStatistic);
}

ModelInstance::ModelInstance(std::shared_ptr<const nn::Model> model, const ModelInstance& weights,
                             bool averaged)
    : model_(std::move(model)),
      backend_(weights.backend_),
      segments_(*backend_, variables_),
      initialized_(true) {
  declare_variables();
  for (const Role role : {Role::kValue, Role::kStatistic})
    segments_.share_from(weights.segments_, role, averaged ? weights.averaged_role(role) : role);
}

// By writing a forward that is thrown away: the variables are those that the model asks for,
// whatever the batch size.
void ModelInstance::declare_variables() {
  Graph scratch;
  constexpr int64_t kAnyBatch = 2;  // batch norm of 1 x 1 images wants two samples
  nn::Builder builder(scratch, nn::Mode::kTrain, kAnyBatch, variables_, 0);
  model_->forward(builder);
  variables_.add({std::string(kStepVariable), {}, DType::kI64, Role::kState, {}});
  variables_.add({std::string(kLossScaleVariable), {}, DType::kF32, Role::kState, {}});
  variables_.add({std::string(kGoodStepsVariable), {}, DType::kI32, Role::kState, {}});
}

void ModelInstance::ensure_initialized(uint64_t seed) {
  if (initialized_) return;
  segments_.initialize(seed);
  initialized_ = true;
}

void ModelInstance::restart_averages() {
  for (const Role role : {Role::kValue, Role::kStatistic}) {
    if (segments_.has(average_of(role))) segments_.copy(average_of(role), role);
  }
}

}  // namespace assay::train
