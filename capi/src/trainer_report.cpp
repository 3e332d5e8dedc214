// Reports of a trainer, and of what a trainer or predictor would be.
#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/planning_backend.h"
#include "capi/src/report.h"
#include "capi/src/trainer.h"
#include "sdk/base/expect.h"
#include "sdk/graph/text.h"
#include "sdk/optim/optimizer.h"

namespace assay::capi {
namespace {

void set_groups(TrainerReport& report, const train::TrainerConfig& config,
                const VariableTable& variables) {
  for (const auto& parameter : optim::resolve_groups(config.optimizer(), variables)) {
    GroupRow& row = *report.add_groups();
    row.set_name(parameter.name);
    if (parameter.group >= 0) row.set_group(parameter.group);
    row.set_weight_decay(parameter.weight_decay);
    row.set_lr_scale(parameter.lr_scale);
    row.set_trust_ratio(parameter.trust_ratio);
  }
}

TrainerReport describe(train::Trainer& trainer) {
  TrainerReport report;
  train::ModelInstance& instance = trainer.instance();
  Program& program = trainer.step_program();
  report.set_architecture(instance.model().architecture());
  *report.mutable_config() = trainer.config();
  report.set_learning_rate(trainer.progress().learning_rate);
  report.set_step(static_cast<double>(trainer.step_count()));
  report.set_samples(static_cast<double>(trainer.sample_count()));
  report.set_loss_scale(trainer.loss_scale());
  set_groups(report, trainer.config(), instance.variables());
  set_memory(*report.mutable_memory(), instance.segments(), program.memory());
  set_passes(*report.mutable_passes(), trainer.pass_records());
  const std::string plan = program.plan_text();
  for (size_t begin = 0; begin < plan.size();) {
    const size_t end = std::min(plan.find('\n', begin), plan.size());
    report.add_plan(plan.substr(begin, end - begin));
    begin = end + 1;
  }
  return report;
}

// The numbers a training step changes, put back by the destructor. A device that has failed takes
// none back; its context is lost anyway.
class SavedState {
 public:
  explicit SavedState(Segments& segments) : segments_(segments), tensors_(segments.all()) {
    for (const SegmentTensor& tensor : tensors_) {
      auto& copy = copies_.emplace_back(tensor.bytes());
      segments_.backend().read(copy.data(), tensor.data, copy.size());
    }
  }
  ~SavedState() {
    try {
      for (size_t i = 0; i < tensors_.size(); ++i) {
        segments_.backend().write(tensors_[i].data, copies_[i].data(), copies_[i].size());
      }
    } catch (const Error&) {
    }
  }
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

 private:
  Segments& segments_;
  std::vector<SegmentTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;
};

void set_ops(CheckReport& report, const Program& program,
             const std::vector<PlanningBackend::PlannedNode>& planned) {
  const Graph& graph = program.graph();
  for (const auto& row : planned) {
    const Node& node = graph.node(row.node);
    if (row.kernel == "none") continue;  // inputs and parameters run nothing
    OpRow& op = *report.add_ops();
    op.set_op(std::string(op_name(node.op)));
    op.set_scope(node.scope);
    op.set_direction(std::string(assay::to_text(node.phase)));
    if (!node.outputs.empty()) op.set_output(assay::to_text(graph.type(node.outputs[0])));
    op.set_kernel(row.kernel);
    op.set_flops(row.flops);
    op.set_bytes(row.bytes);
    op.set_scratch(static_cast<double>(row.scratch_bytes));
    report.set_flops(report.flops() + row.flops);
    report.set_bytes(report.bytes() + row.bytes);
  }
}

void check_training(CheckReport& report, const std::shared_ptr<train::ModelInstance>& instance,
                    PlanningBackend& backend, int32_t mode, std::string_view json) {
  train::Trainer trainer(instance, read_trainer_config(nullptr, json));
  const bool train = mode == ASSAY_MODE_TRAIN;
  const Program& program = train ? trainer.step_program() : trainer.eval_program();
  report.set_mode(train ? "train" : "eval");
  report.set_precision(trainer.config().precision());
  report.set_batch(static_cast<double>(train ? trainer.config().batch_size()
                                             : trainer.config().eval_batch_size()));
  set_memory(*report.mutable_memory(), instance->segments(), program.memory());
  set_passes(*report.mutable_passes(), trainer.pass_records());
  set_ops(report, program, backend.take_planned());
}

void check_prediction(CheckReport& report, train::ModelInstance& instance, PlanningBackend& backend,
                      std::string_view json) {
  const train::PredictorOptions options = read_predictor_config(json);
  if (options.use_ema) instance.segments().ensure(Role::kEma);
  instance.set_has_averages(options.use_ema);
  const train::Predictor predictor(instance, options);
  train::PredictorSlot slot(predictor);
  const Program& program = *slot.prepare(options.max_batch);
  report.set_mode("predict");
  report.set_precision(std::string(assay::to_text(options.precision)));
  report.set_batch(static_cast<double>(options.max_batch));
  // The predictor's copy of the weights, whichever they were.
  MemoryPlan& memory = *report.mutable_memory();
  memory.set_weights(static_cast<double>(instance.segments().bytes(Role::kValue)));
  memory.set_statistics(static_cast<double>(instance.segments().bytes(Role::kStatistic)));
  set_program_memory(memory, program.memory());
  set_ops(report, program, backend.take_planned());
}

CheckReport check(const ModelState& state, int32_t mode, std::string_view json) {
  CheckReport report;
  report.set_architecture(state.model()->architecture());
  set_device(*report.mutable_device(), state.context().backend()->info());
  report.set_determinism(state.context().deterministic() ? "run-to-run" : "off");
  const auto backend = std::make_shared<PlanningBackend>(state.context().backend());
  const auto instance = std::make_shared<train::ModelInstance>(state.model(), backend);
  instance->mark_initialized();  // plans need no numbers
  report.set_parameters(static_cast<double>(instance->variables().parameter_count()));
  if (mode == ASSAY_MODE_PREDICT) {
    check_prediction(report, *instance, *backend, json);
  } else {
    check_training(report, instance, *backend, mode, json);
  }
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_model_check(const assay_model* m, assay_device_id device, int32_t mode,
                               assay_str config_json, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const ModelState& state = *not_null(m, "m").impl;
    state.context().require_device(device);
    expect(mode >= ASSAY_MODE_TRAIN && mode <= ASSAY_MODE_PREDICT, {"", "mode"}, mode,
           "an ASSAY_MODE_* constant");
    *out = new_report(check(state, mode, to_text(config_json, "config_json")));
  });
}

assay_status assay_trainer_report(assay_trainer* t, assay_report** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_trainer& trainer = not_null(t, "t");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    *out = new_report(describe(trainer.trainer));
  });
}

assay_status assay_trainer_profile(assay_trainer* t, int32_t repeats, assay_report** out,
                                   assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_trainer& trainer = not_null(t, "t");
    expect(repeats >= 1 && repeats <= 1000, {"", "repeats"}, repeats, "1 to 1000");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    trainer.trainer.require_between_updates();
    Program& program = trainer.trainer.step_program();
    Segments& segments = trainer.trainer.instance().segments();
    ProfileReport report;
    set_memory(*report.mutable_memory(), segments, program.memory());
    const SavedState saved(segments);
    set_profile(report, program.graph(), program.profile(repeats), repeats);
    *out = new_report(report);
  });
}
