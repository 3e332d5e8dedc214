// Reports of a trainer, and of what a trainer or predictor would be.
#include <array>

#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/planning_backend.h"
#include "capi/src/report_parts.h"
#include "capi/src/trainer.h"
#include "sdk/base/expect.h"
#include "sdk/graph/text.h"
#include "sdk/optim/optimizer.h"

namespace assay::capi {
namespace {

void set_groups(TrainerReport& report, const train::TrainerConfig& config,
                const VariableTable& variables) {
  for (const auto& parameter : optim::resolve_groups(config.optimizer, variables)) {
    if (parameter.frozen) continue;
    GroupRow& row = *report.add_groups();
    row.set_name(parameter.name);
    if (!parameter.groups.empty()) row.set_group(parameter.groups.back());
    row.set_weight_decay(parameter.weight_decay);
    row.set_lr_scale(parameter.lr_scale);
    row.set_trust_ratio(parameter.trust_ratio);
  }
}

// What the trainer takes: its segments, one arena for all programs, and with accumulation copies of
// the statistics.
void set_memory(MemoryPlan& target, train::Trainer& trainer) {
  const Segments& segments = trainer.instance().segments();
  set_memory(target, segments, trainer.programs().memory());
  if (*trainer.config().accumulate == 1) return;
  const auto copy = static_cast<double>(train::DeviceStatistics::bytes(
      segments.bytes(Role::kStatistic), *trainer.config().emulated_devices));
  target.set_statistics(target.statistics() + copy);
  target.set_total(target.total() + copy);
}

void add_plan(TrainerReport& report, train::GraphKind kind, const Program& program) {
  report.add_plan(cat("# ", kind));
  const std::string plan = program.plan_text();
  for (size_t begin = 0; begin < plan.size();) {
    const size_t end = std::min(plan.find('\n', begin), plan.size());
    report.add_plan(plan.substr(begin, end - begin));
    begin = end + 1;
  }
}

void set_communication(TrainerReport& report, const train::Trainer& trainer) {
  if (trainer.channel() == nullptr) return;
  const train::Communication& all = trainer.communication();
  CommunicationReport& out = *report.mutable_communication();
  out.set_ranks(trainer.channel()->size());
  out.set_updates(static_cast<double>(all.updates));
  out.set_bytes(static_cast<double>(all.bytes));
  if (all.seconds == 0) return;  // not measured
  out.set_seconds(all.seconds);
  out.set_waited(all.waited);
}

TrainerReport describe(train::Trainer& trainer) {
  TrainerReport report;
  train::ModelInstance& instance = trainer.instance();
  report.set_architecture(instance.model().architecture());
  report.set_config(trainer.config_json());
  report.set_learning_rate(trainer.progress().learning_rate);
  report.set_step(static_cast<double>(trainer.step_count()));
  report.set_samples(static_cast<double>(trainer.sample_count()));
  report.set_loss_scale(trainer.loss_scale());
  set_groups(report, trainer.config(), instance.variables());
  for (const auto& scalar : trainer.programs().get(train::GraphKind::kEval).scalars())
    if (!scalar.is_weight) report.add_evaluated(std::string(scalar.name));
  for (const train::GraphKind kind : trainer.programs().update_kinds()) {
    const train::TrainerProgram& program = trainer.programs().get(kind);
    add_passes(*report.mutable_passes(), to_text(kind), program.passes());
    add_plan(report, kind, program.program());
  }
  set_memory(*report.mutable_memory(), trainer);
  set_communication(report, trainer);
  return report;
}

// The numbers a training step changes, put back at the latest by the destructor. If a device takes
// them back no more, the trainer is lost.
class SavedState {
 public:
  explicit SavedState(train::Trainer& trainer) : trainer_(trainer) {
    const Segments& segments = trainer.instance().segments();
    for (const Role role : segments.roles()) copies_.push_back(segments.save(role));
  }
  ~SavedState() {
    try {
      put_back();
    } catch (...) {
      // What leaves a destructor ends the process.
    }
  }
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  void put_back() {
    if (copies_.empty()) return;  // once: what failed then is told already
    const std::vector<HostSegment> copies = std::move(copies_);
    trainer_.whole_after([&] {
      Segments& segments = trainer_.instance().segments();
      for (const HostSegment& copy : copies) segments.restore(copy);
      segments.backend().wait();  // others may read the weights in place
    });
  }

 private:
  train::Trainer& trainer_;
  std::vector<HostSegment> copies_;
};

void add_ops(CheckReport& report, const Program& program) {
  const Graph& graph = program.graph();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const Node& node = graph.node(id);
    const NodePlan& plan = program.plan(id);
    const NodeFacts& facts = program.facts(id);
    if (plan.kernel == "none") continue;  // inputs and parameters run nothing
    OpRow& op = *report.add_ops();
    op.set_op(std::string(op_name(node.op)));
    op.set_scope(node.scope);
    op.set_direction(std::string(assay::to_text(node.phase)));
    if (!node.outputs.empty()) op.set_output(assay::to_text(graph.type(node.outputs[0])));
    op.set_kernel(plan.kernel);
    op.set_flops(facts.flops);
    op.set_bytes(facts.bytes);
    op.set_scratch(static_cast<double>(plan.scratch_bytes));
    report.set_flops(report.flops() + facts.flops);
    report.set_bytes(report.bytes() + facts.bytes);
  }
}

void check_training(CheckReport& report, const std::shared_ptr<train::ModelInstance>& instance,
                    int32_t mode, std::string_view json) {
  train::Trainer trainer(instance, read_trainer_config(nullptr, json));
  const bool train = mode == ASSAY_MODE_TRAIN;
  constexpr std::array kEval{train::GraphKind::kEval};
  for (const train::GraphKind kind : train ? trainer.programs().update_kinds() : kEval) {
    const train::TrainerProgram& program = trainer.programs().get(kind);
    add_passes(*report.mutable_passes(), to_text(kind), program.passes());
    add_ops(report, program.program());
  }
  report.set_mode(train ? "train" : "eval");
  report.set_precision(*trainer.config().precision);
  report.set_batch(
      static_cast<double>(train ? trainer.config().batch_size : *trainer.config().eval_batch_size));
  set_memory(*report.mutable_memory(), trainer);
}

void check_prediction(CheckReport& report, train::ModelInstance& instance, std::string_view json) {
  const train::PredictorOptions options = read_predictor_config(json);
  if (options.use_ema) instance.segments().ensure(Role::kEma);
  instance.set_averaged(options.use_ema ? std::set{Role::kValue} : std::set<Role>{});
  const train::Predictor predictor(instance, options);
  train::PredictorSlot slot(predictor);
  const Program& program = *slot.prepare(options.max_batch);
  report.set_mode("predict");
  report.set_precision(std::string(assay::to_text(options.precision)));
  report.set_batch(static_cast<double>(options.max_batch));
  // Of the weights, whichever they were; a model that is not trained shares them.
  MemoryPlan& memory = *report.mutable_memory();
  memory.set_weights(static_cast<double>(instance.segments().bytes(Role::kValue)));
  memory.set_statistics(static_cast<double>(instance.segments().bytes(Role::kStatistic)));
  set_program_memory(memory, program.memory());
  add_ops(report, program);
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
    check_prediction(report, *instance, json);
  } else {
    check_training(report, instance, mode, json);
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
    *out = new_report(describe(trainer.impl));
  });
}

assay_status assay_trainer_profile(assay_trainer* t, int32_t repeats, assay_report** out,
                                   assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_trainer& trainer = not_null(t, "t");
    expect(repeats >= 1 && repeats <= 1000, {"", "repeats"}, repeats, "1 to 1000");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    trainer.impl.require_between_updates();
    train::Programs& programs = trainer.impl.programs();
    ProfileReport report;
    SavedState saved(trainer.impl);
    for (const train::GraphKind kind : programs.update_kinds())
      add_profile(report, programs.get(kind).program(), repeats);
    saved.put_back();
    set_memory(*report.mutable_memory(), trainer.impl);
    *out = new_report(report);
  });
}
