// A predictor holds the weights as they are when it is made; its slots compile one program per
// batch size on them and share what kernels prepared of them (ConstantStore).
#include "sdk/train/predictor.h"

#include <algorithm>
#include <utility>

#include "sdk/base/expect.h"
#include "sdk/train/batch_check.h"
#include "sdk/train/training_graph.h"

namespace assay::train {

Predictor::Predictor(const ModelInstance& instance, PredictorOptions options)
    : options_(std::move(options)) {
  require(instance.initialized(), Code::kInvalid,
          "the model has no weights yet: train it, or load weights or a checkpoint");
  expect(options_.max_batch >= 1, {"predictor", "max_batch"}, options_.max_batch, "at least 1");
  expect(
      !options_.use_ema || !instance.averaged().empty(), {"predictor", "use_ema"}, "true",
      "false: this model has no moving averages, which a trainer with optimizer.ema_decay keeps");
  std::shared_ptr<const nn::Model> model = instance.shared_model();
  const nn::TrainingOptions shapes{.image_size = options_.image_size,
                                   .suppression = options_.suppression,
                                   .sequence_length = options_.sequence_length,
                                   .prediction_slots = options_.prediction_slots};
  if (shapes != nn::TrainingOptions{}) model = model->configured(shapes);
  // The model object lives as long as the snapshot: both are shared.
  snapshot_ = std::make_shared<ModelInstance>(model, instance, options_.use_ema);
  inputs_ = model->inputs(nn::Mode::kPredict);
}

std::unique_ptr<Program> Predictor::compile_for(int64_t batch) const {
  BuiltGraph built =
      build_predict_graph(snapshot_->model(), snapshot_->variables(), options_.precision, batch,
                          options_.disabled_passes, snapshot_->backend()->target());
  return compile(std::move(built.graph), snapshot_->segments(), {.constants = constants_});
}

const std::shared_ptr<Program>& PredictorSlot::prepare(int64_t batch) {
  const int64_t most = predictor_.options().max_batch;
  expect(batch >= 1 && batch <= most, {"prediction", "batch"}, batch, "1 to max_batch (", most,
         ")");
  auto entry = std::find_if(programs_.begin(), programs_.end(),
                            [&](const Entry& known) { return known.batch == batch; });
  if (entry == programs_.end()) {
    Entry fresh{batch, predictor_.compile_for(batch)};
    // Compiled before the oldest goes: a failure leaves the slot as it was.
    if (programs_.size() == kPrograms) programs_.pop_back();
    entry = programs_.insert(programs_.end(), std::move(fresh));
  }
  std::rotate(programs_.begin(), entry, entry + 1);
  return programs_.front().program;
}

bool PredictorSlot::keeps(const std::shared_ptr<Program>& program) const {
  return std::any_of(programs_.begin(), programs_.end(),
                     [&](const Entry& entry) { return entry.program == program; });
}

Program& PredictorSlot::run(std::span<const HostTensor> inputs, const std::atomic<bool>* cancel) {
  const auto& specs = predictor_.inputs();
  if (inputs.size() != specs.size()) [[unlikely]]
    fail_mismatch(Code::kInvalid, {"number of tensors", "n_in", cat(inputs.size()),
                                   cat(specs.size(), ": ", nn::names_of(specs))});
  expect(inputs[0].dims.rank() >= 1, {"prediction", specs[0].name}, "a single number",
         "a tensor with a batch axis");
  Program& program = *prepare(inputs[0].dims[0]);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Program::Port& port = program.input(specs[i].name);
    const bool missing = inputs[i].data == nullptr;
    if (missing || !fits(inputs[i], port.type)) [[unlikely]]
      fail_mismatch(Code::kInvalid,
                    {cat("input ", specs[i].name), specs[i].name,
                     missing ? "without data" : to_text(ValueType{inputs[i].dtype, inputs[i].dims}),
                     to_text(port.type)});
    // Written one by one as they pass their checks; nothing runs before all of them have.
    check_range(specs[i], inputs[i]);
    program.backend().write(port.data, elements_of(specs[i], inputs[i], narrowed_),
                            port.type.bytes());
  }
  program.run(cancel);
  return program;
}

}  // namespace assay::train
