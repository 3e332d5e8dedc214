#include "sdk/train/model_instance.h"

namespace assay::train {

ModelInstance::ModelInstance(std::shared_ptr<const nn::Model> model,
                             std::shared_ptr<Backend> backend)
    : model_(std::move(model)), backend_(std::move(backend)), segments_(*backend_, variables_) {
  // Declared by writing a forward that is thrown away: the variables are those that the model asks
  // for, whatever the batch size.
  Graph scratch;
  constexpr int64_t kAnyBatch = 2;  // batch norm of 1 x 1 images wants two samples
  nn::Builder builder(scratch, nn::Mode::kTrain, kAnyBatch, variables_, 0);
  model_->forward(builder);
  variables_.add({std::string(kStepVariable), {}, DType::kI64, Role::kState, {}});
  variables_.add({std::string(kLossScaleVariable), {}, DType::kF32, Role::kState, {}});
  variables_.add({std::string(kGoodStepsVariable), {}, DType::kI32, Role::kState, {}});
  segments_.ensure(Role::kValue);
  segments_.ensure(Role::kStatistic);
}

void ModelInstance::ensure_initialized(uint64_t seed) {
  if (initialized_) return;
  segments_.initialize(seed);
  initialized_ = true;
}

void ModelInstance::restart_averages() {
  for (const Role role : {Role::kValue, Role::kStatistic}) {
    if (segments_.has(average_of(role))) segments_.copy_from(segments_, average_of(role), role);
  }
}

}  // namespace assay::train
