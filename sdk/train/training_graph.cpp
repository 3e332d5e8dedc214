// A training graph is the model's forward after its passes, the gradients stored in their segment,
// the norm that says whether to skip, the updates, and last the running statistics. Backward and
// apply are the two halves of the same graph, cut at the gradient segment.
#include "sdk/train/training_graph.h"

#include <array>
#include <numeric>
#include <optional>
#include <set>

#include "sdk/graph/autodiff.h"
#include "sdk/graph/leaves.h"
#include "sdk/optim/optimizer.h"
#include "sdk/passes/reduce_gradients.h"
#include "sdk/train/model_instance.h"

namespace assay::train {
namespace {

void append_records(std::vector<PassRecord>& to, std::vector<PassRecord> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Those that run on every graph when all else is done.
void run_last_passes(BuiltGraph& built, std::span<const std::string> disabled,
                     const Target& target) {
  append_records(built.passes, run_passes(built.graph, finishing_passes(), disabled));
  if (target.kind == Target::Kind::kCuda)
    append_records(built.passes, run_passes(built.graph, gpu_passes(target), disabled));
}

// Emits the forward and names what it gives. Of training a host reads numbers only: logits that
// nobody wants are not kept, nor cast to f32.
void append_forward(BuiltGraph& built, const nn::Model& model, nn::Builder& builder) {
  for (const nn::Output& output : model.forward(builder)) {
    if (builder.training() && built.graph.type(output.value) != ValueType{}) continue;
    built.graph.outputs().push_back({output.name, output.value});
    if (output.weight.valid())
      built.graph.outputs().push_back({output.name + ".weight", output.weight});
    built.outputs.push_back({output.name, output.reduction, output.weight.valid()});
  }
}

// Names under which batch statistics survive the forward passes, which may move them to other
// nodes.
std::string statistic_output(size_t update, const char* which) {
  return cat("statistics.", update, ".", which);
}

// Used once: build() gives its parts away.
class TrainingGraphBuilder {
 public:
  TrainingGraphBuilder(const nn::Model& model, VariableTable& variables,
                       const TrainerConfig& config, GraphKind kind, const Target& target,
                       bool distributed)
      : model_(model),
        variables_(variables),
        config_(config),
        kind_(kind),
        target_(target),
        distributed_(distributed) {}

  BuiltGraph build() {
    const bool backward = kind_ != GraphKind::kApply;
    const bool apply = kind_ == GraphKind::kStep || kind_ == GraphKind::kApply;
    if (backward) append_forward();
    // After the forward passes, which may have replaced leaves that the builder emitted.
    leaves_.emplace(graph());
    if (backward) append_gradients();
    if (apply) append_apply();
    if (backward)
      append_statistics(apply ? graph().output("grad_norm") : graph().output(nn::kLoss));
    if (apply && config_.optimizer.ema_statistics) append_averages_of_statistics();
    append_records(built_.passes,
                   run_passes(graph(), training_passes(target_), config_.disabled_pass));
    run_last_passes(built_, config_.disabled_pass, target_);
    if (distributed_ && apply) begin_reductions_early(graph());
    return std::move(built_);
  }

 private:
  Graph& graph() { return built_.graph; }

  ValueId leaf(std::string_view name, Role role) {
    return leaves_->leaf(*variables_.find(name), role);
  }
  ValueId state(std::string_view name) { return leaf(name, Role::kState); }

  // One device that plays several rounds what they would send each other.
  bool plays_wire() const { return !distributed_ && gradient_wire(config_).has_value(); }
  ValueId as_f16(ValueId value) {
    return graph().emit1(Pointwise{{PointwiseFn::kF16, {PointwiseOperand::input(0)}}, DType::kF32},
                         {value});
  }

  void append_forward() {
    nn::Builder builder(graph(), nn::Mode::kTrain, config_.batch_size, variables_, config_.seed);
    train::append_forward(built_, model_, builder);
    updates_ = builder.statistics_updates();
    for (size_t i = 0; i < updates_.size(); ++i) {
      graph().outputs().push_back({statistic_output(i, "mean"), updates_[i].mean});
      graph().outputs().push_back({statistic_output(i, "var"), updates_[i].var});
    }
    apply_precision(graph(), parse_precision(*config_.precision), target_);
    append_records(built_.passes, run_passes(graph(), forward_passes(), config_.disabled_pass));
  }

  void append_gradients() {
    const auto trained = optim::trained_variables(config_.optimizer, variables_);
    std::vector<ValueId> values;
    for (const Variable* variable : trained)
      values.push_back(leaves_->leaf(*variable, Role::kValue));
    // The gradient of the loss is the loss scale: all gradients come out scaled by it, and
    // GradientNorm's multiplier takes it away again.
    const ValueId seed = state(kLossScaleVariable);
    const auto gradients = append_backward(graph(), graph().output(nn::kLoss), seed, values);
    for (size_t i = 0; i < trained.size(); ++i) {
      require(gradients[i].valid(), Code::kInternal, "the loss does not depend on ",
              trained[i]->name);
      graph().set_scope(trained[i]->name);
      const ValueId target = leaves_->leaf(*trained[i], Role::kGradient);
      const ValueId sent = plays_wire() ? as_f16(gradients[i]) : gradients[i];
      stored_.push_back(graph().emit1(Store{kind_ == GraphKind::kBackwardNext}, {target, sent}));
    }
    graph().set_scope("");
  }

  void append_apply() {
    graph().set_phase(Phase::kUpdate);
    // Apply alone: the backward ran in another program and left its gradients in the segment.
    if (stored_.empty()) {
      for (const Variable* variable : optim::trained_variables(config_.optimizer, variables_))
        stored_.push_back(leaves_->leaf(*variable, Role::kGradient));
    }
    graph().set_scope("optimizer");
    if (distributed_) stored_ = append_all_reduce(graph(), stored_, gradient_wire(config_));
    if (plays_wire()) {
      for (ValueId& sum : stored_) sum = graph().emit1(Store{}, {sum, as_f16(sum)});
    }
    const ValueId scale = state(kLossScaleVariable);
    const auto with_gradients = [&] {
      std::vector<ValueId> operands{scale};
      operands.insert(operands.end(), stored_.begin(), stored_.end());
      return operands;
    };
    const int64_t accumulate = *config_.accumulate;
    if (const ValueId decay =
            optim::append_decay(graph(), config_.optimizer, variables_, scale, accumulate, stored_);
        decay.valid())
      graph().outputs().push_back({"decay_loss", decay});
    graph().set_scope("optimizer");
    if (const auto each = static_cast<float>(config_.optimizer.clip_each_norm); each > 0)
      stored_ = graph().emit(ClipGradients{each, accumulate}, with_gradients());
    const GradientNorm norm{static_cast<float>(config_.optimizer.clip_norm), accumulate};
    const auto outputs = graph().emit(norm, with_gradients());
    const ValueId length = outputs[0], multiplier = outputs[1], skip = outputs[2];
    graph().outputs().push_back({"grad_norm", length});
    graph().outputs().push_back({"skip", skip});
    const ValueId step = graph().emit1(CountStep{}, {state(kStepVariable), skip});
    const ValueId rate = graph().emit1(StepScalar{ScalarKind::kLearningRate}, {});
    update_inputs_ = {rate, multiplier, skip, step};
    optim::append_update(graph(), config_.optimizer, variables_, update_inputs_, stored_);
    append_loss_scale(scale, skip);
    graph().set_scope("");
  }

  void append_loss_scale(ValueId scale, ValueId skip) {
    const auto& c = config_.loss_scale;
    if (c.mode != "dynamic") return;
    graph().set_scope("optimizer.loss_scale");
    LossScaleUpdate op;
    op.growth = static_cast<float>(*c.growth);
    op.backoff = static_cast<float>(*c.backoff);
    op.interval = *c.interval;
    op.minimum = static_cast<float>(*c.minimum);
    op.maximum = static_cast<float>(*c.maximum);
    graph().emit(op, {scale, state(kGoodStepsVariable), skip});
  }

  // Running averages come last: gated by a number that is finite only if the step went well.
  void append_statistics(ValueId gate) {
    graph().set_phase(Phase::kUpdate);
    graph().set_scope("statistics");
    std::vector<size_t> waiting(updates_.size());
    std::iota(waiting.begin(), waiting.end(), size_t{0});
    while (!waiting.empty()) {
      // All that move alike together. A layer used twice moves its averages twice, in order of use.
      std::set<std::string_view> seen;
      std::vector<size_t> now, later;
      for (const size_t i : waiting) {
        const bool is_first = seen.insert(updates_[i].scope).second;
        (is_first && updates_[i].op == updates_[waiting[0]].op ? now : later).push_back(i);
      }
      append_moves(now, gate);
      waiting = std::move(later);
    }
    graph().set_scope("");
    std::erase_if(graph().outputs(),
                  [](const GraphOutput& output) { return output.name.starts_with("statistics."); });
  }

  void append_moves(const std::vector<size_t>& updates, ValueId gate) {
    constexpr std::array kWhich{"mean", "var"};
    const auto running = [&](size_t i, const char* which) -> const Variable& {
      return *variables_.find(cat(updates_[i].scope, ".running_", which));
    };
    std::vector<ValueId> inputs;
    for (const char* which : kWhich)
      for (const size_t i : updates)
        inputs.push_back(leaves_->leaf(running(i, which), Role::kStatistic));
    for (const char* which : kWhich)
      for (const size_t i : updates) inputs.push_back(graph().output(statistic_output(i, which)));
    inputs.push_back(gate);
    const auto moved = graph().emit(updates_[updates[0]].op, inputs);
    auto next = moved.begin();
    for (const char* which : kWhich)
      for (const size_t i : updates) leaves_->advance(running(i, which), Role::kStatistic, *next++);
  }

  void append_averages_of_statistics() {
    graph().set_phase(Phase::kUpdate);
    graph().set_scope("optimizer.ema");
    std::vector<ValueId> averages, values;
    for (const Variable& variable : variables_.all()) {
      if (variable.role != Role::kStatistic) continue;
      averages.push_back(leaves_->leaf(variable, Role::kStatisticEma));
      values.push_back(leaves_->leaf(variable, Role::kStatistic));
    }
    if (!values.empty())
      optim::append_average(graph(), config_.optimizer, update_inputs_, averages, values);
    graph().set_scope("");
  }

  const nn::Model& model_;
  VariableTable& variables_;
  const TrainerConfig& config_;
  GraphKind kind_;
  const Target& target_;
  const bool distributed_;
  BuiltGraph built_;
  std::optional<Leaves> leaves_;  // from the forward passes on
  std::vector<nn::Builder::StatisticsUpdate> updates_;
  std::vector<ValueId> stored_;  // gradients in their segment, by trained variable
  optim::UpdateInputs update_inputs_;
};

}  // namespace

std::string_view to_text(GraphKind kind) {
  constexpr std::string_view kNames[] = {"step",  "backward", "backward_next",
                                         "apply", "eval",     "eval_ema"};
  return kNames[static_cast<size_t>(kind)];
}

BuiltGraph build_training_graph(const nn::Model& model, VariableTable& variables,
                                const TrainerConfig& config, GraphKind kind, const Target& target,
                                bool distributed) {
  return TrainingGraphBuilder(model, variables, config, kind, target, distributed).build();
}

BuiltGraph build_eval_graph(const nn::Model& model, VariableTable& variables,
                            const TrainerConfig& config, bool use_ema, const Target& target) {
  BuiltGraph built;
  nn::Builder builder(built.graph, nn::Mode::kEval, *config.eval_batch_size, variables,
                      config.seed);
  append_forward(built, model, builder);
  // The same graph with another role behind each parameter's leaf.
  if (use_ema) {
    const std::set<Role> averaged = optim::averaged_roles(config.optimizer);
    for (size_t i = 0; i < built.graph.nodes().size(); ++i) {
      auto* parameter = std::get_if<Parameter>(&built.graph.node({static_cast<int32_t>(i)}).op);
      if (parameter != nullptr && averaged.contains(parameter->role))
        parameter->role = average_of(parameter->role);
    }
  }
  apply_precision(built.graph, parse_precision(*config.precision), target);
  built.passes = run_passes(built.graph, forward_passes(), config.disabled_pass);
  run_last_passes(built, config.disabled_pass, target);
  return built;
}

BuiltGraph build_predict_graph(const nn::Model& model, VariableTable& variables,
                               Precision precision, int64_t batch,
                               std::span<const std::string> disabled, const Target& target) {
  BuiltGraph built;
  nn::Builder builder(built.graph, nn::Mode::kPredict, batch, variables, 0);
  append_forward(built, model, builder);
  apply_precision(built.graph, precision, target);
  built.passes = run_passes(built.graph, forward_passes(), disabled);
  append_records(built.passes, run_passes(built.graph, inference_passes(), disabled));
  run_last_passes(built, disabled, target);
  return built;
}

}  // namespace assay::train
