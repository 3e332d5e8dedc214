#include "sdk/train/predictor.h"

#include "sdk/train/training_graph.h"

namespace assay::train {

Predictor::Predictor(const ModelInstance& instance, PredictorOptions options)
    : options_(std::move(options)) {
  require(instance.initialized(), Code::kInvalid,
          "the model has no weights yet: train it, or load weights or a checkpoint");
  require(options_.max_batch >= 1, Code::kInvalid, "max_batch must be at least 1, got ",
          options_.max_batch);
  // The model object lives as long as the snapshot: both are shared.
  snapshot_ = std::make_shared<ModelInstance>(instance.shared_model(), instance.backend());
  snapshot_->segments().copy_from(instance.segments(), Role::kValue,
                                  options_.use_ema ? Role::kEma : Role::kValue);
  snapshot_->segments().copy_from(instance.segments(), Role::kStatistic, Role::kStatistic);
  snapshot_->mark_initialized();
  for (const nn::InputSpec& spec : instance.model().inputs()) {
    if (!spec.is_label()) inputs_.push_back(spec);
  }
}

std::unique_ptr<Program> Predictor::compile_for(int64_t batch) const {
  BuiltGraph built = build_predict_graph(snapshot_->model(), snapshot_->variables(),
                                         options_.precision, batch, options_.disabled_passes);
  return compile(std::move(built.graph), snapshot_->segments(), {.hoist_constants = true});
}

Program& PredictorSlot::prepare(int64_t batch) {
  require(batch >= 1 && batch <= predictor_.options().max_batch, Code::kInvalid,
          "batch must be in [1, ", predictor_.options().max_batch, "], got ", batch);
  auto& program = programs_[batch];
  if (!program) program = predictor_.compile_for(batch);
  return *program;
}

Program& PredictorSlot::run(std::span<const HostTensor> inputs, const std::atomic<bool>* cancel) {
  const auto& specs = predictor_.inputs();
  require(inputs.size() == specs.size(), Code::kInvalid, "prediction takes ", specs.size(),
          " tensors, got ", inputs.size());
  require(inputs[0].dims.rank() >= 1, Code::kInvalid, "input ", specs[0].name,
          " needs a batch axis");
  Program& program = prepare(inputs[0].dims[0]);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Program::Slot& slot = program.input(specs[i].name);
    const ValueType actual{inputs[i].dtype, inputs[i].dims};
    require(actual == slot.type, Code::kInvalid, "input ", specs[i].name, " is ", actual,
            ", expected ", slot.type);
    require(inputs[i].data != nullptr, Code::kInvalid, "input ", specs[i].name, " has no data");
    program.backend().write(slot.data, inputs[i].data, slot.type.bytes());
  }
  program.run(cancel);
  return program;
}

}  // namespace assay::train
