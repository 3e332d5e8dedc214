#include "sdk/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "sdk/base/proto_json.h"
#include "sdk/optim/optimizer.h"
#include "sdk/optim/schedule.h"

namespace assay::train {
namespace {

TrainerConfig with_defaults(TrainerConfig config) {
  if (config.eval_batch_size() == 0) config.set_eval_batch_size(config.batch_size());
  if (config.accumulate() == 0) config.set_accumulate(1);
  if (config.precision().empty()) config.set_precision("fp32");
  auto& scale = *config.mutable_loss_scale();
  if (scale.mode().empty()) scale.set_mode("none");
  if (!scale.has_initial()) scale.set_initial(scale.mode() == "none" ? 1 : 65536);
  return config;
}

void check(const TrainerConfig& config) {
  const auto in_range = [](std::string_view key, int64_t value) {
    require(value >= 1 && value <= (int64_t{1} << 30), Code::kInvalid, "trainer: ", key,
            " must be in [1, 2^30], got ", value);
  };
  in_range("batch_size", config.batch_size());
  in_range("eval_batch_size", config.eval_batch_size());
  in_range("accumulate", config.accumulate());
  require(config.label_smoothing() >= 0 && config.label_smoothing() < 1, Code::kInvalid,
          "trainer: label_smoothing must be in [0, 1), got ", config.label_smoothing());
  require(config.mixup_alpha() >= 0 && config.mixup_alpha() <= 1e6, Code::kInvalid,
          "trainer: mixup_alpha must be in [0, 1e6], got ", config.mixup_alpha());
  const std::string& mode = config.loss_scale().mode();
  require(mode == "none" || mode == "static" || mode == "dynamic", Code::kInvalid,
          "trainer: loss_scale mode is \"none\", \"static\" or \"dynamic\", got \"", mode, "\"");
  const double initial = config.loss_scale().initial();
  require(std::isfinite(initial) && initial > 0, Code::kInvalid,
          "trainer: loss_scale initial must be positive, got ", initial);
  optim::check_schedule(config.schedule());
}

// [batch, sample...]; on the stack, for steps allocate nothing.
Dims batch_dims(int64_t batch, const Dims& sample) {
  std::array<int64_t, Dims::kMaxRank> sizes{batch};
  std::copy(sample.span().begin(), sample.span().end(), sizes.begin() + 1);
  return Dims(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sample.rank()) + 1));
}

// What mixes the batches of a trainer, if it is to.
std::optional<Mixup> make_mixup(const TrainerConfig& config, const nn::Model& model) {
  if (config.mixup_alpha() == 0) return std::nullopt;
  const std::vector<nn::InputSpec> inputs = model.inputs();
  require(inputs.size() == 2 && inputs[0].dtype == DType::kF32 && inputs[1].classes > 0,
          Code::kInvalid, "trainer: mixup_alpha is for classifiers of images; ",
          model.architecture(), " is none");
  return Mixup({.alpha = config.mixup_alpha(),
                .label_smoothing = config.label_smoothing(),
                .seed = config.seed(),
                .batch = config.batch_size(),
                .classes = inputs[1].classes,
                .image_size = inputs[0].sample.numel()});
}

void check_labels(const HostTensor& tensor, const nn::InputSpec& spec, bool allow_padding) {
  const auto* labels = static_cast<const int32_t*>(tensor.data);
  const int32_t least = allow_padding ? -1 : 0;
  for (int64_t i = 0; i < tensor.dims.numel(); ++i) {
    require(labels[i] >= least && labels[i] < spec.classes, Code::kInvalid, spec.name, "[", i,
            "] is ", labels[i], ", expected a class in [0, ", spec.classes, ")");
  }
}

int64_t labelled_rows(const HostTensor& tensor) {
  const auto* labels = static_cast<const int32_t*>(tensor.data);
  return std::count_if(labels, labels + tensor.dims.numel(),
                       [](int32_t label) { return label >= 0; });
}

int64_t rows_with_target(const HostTensor& tensor) {
  const auto* target = static_cast<const float*>(tensor.data);
  const int64_t elems = tensor.dims.numel() / tensor.dims[0];
  int64_t rows = 0;
  for (int64_t row = 0; row < tensor.dims[0]; ++row, target += elems)
    rows += std::any_of(target, target + elems, [](float weight) { return weight != 0; });
  return rows;
}

template <class T>
void write_state(Segments& segments, std::string_view name, T value) {
  segments.backend().write(segments.tensor(name, Role::kState).data, &value, sizeof value);
}

// What an earlier trainer of the same model left behind is not ours.
void forget_training(Segments& segments) {
  std::vector<std::byte> zeros;
  for (const SegmentTensor& tensor : segments.all()) {
    const bool moment = tensor.role == Role::kMoment1 || tensor.role == Role::kMoment2;
    if (!moment && tensor.role != Role::kGradient) continue;
    zeros.resize(std::max(zeros.size(), tensor.bytes()));
    segments.backend().write(tensor.data, zeros.data(), tensor.bytes());
  }
  if (segments.has(Role::kEma)) segments.copy_from(segments, Role::kEma, Role::kValue);
}

}  // namespace

Trainer::Trainer(std::shared_ptr<ModelInstance> instance, TrainerConfig config)
    : instance_(std::move(instance)),
      inputs_(instance_->model().inputs()),
      config_(with_defaults(std::move(config))) {
  check(config_);
  mixup_ = make_mixup(config_, instance_->model());
  optim::resolve_groups(config_.optimizer(), instance_->variables());
  build_training_graph(instance_->model(), instance_->variables(), config_,
                       GraphKind::kStep);  // all errors surface now
  Segments& segments = instance_->segments();
  instance_->initialize_once(config_.seed());
  segments.ensure(Role::kGradient);
  segments.ensure(Role::kState);
  for (const Role role : optim::state_roles(config_.optimizer())) segments.ensure(role);
  forget_training(segments);
  write_state(segments, kLossScaleVariable, static_cast<float>(config_.loss_scale().initial()));
  write_state(segments, kStepVariable, int64_t{0});
  write_state(segments, kGoodStepsVariable, int32_t{0});
}

Program& Trainer::program(GraphKind kind) {
  auto& slot = programs_[kind];
  if (!slot) {
    BuiltGraph built =
        build_training_graph(instance_->model(), instance_->variables(), config_, kind);
    pass_records_ = std::move(built.passes);
    slot = compile(std::move(built.graph), instance_->segments());
  }
  return *slot;
}

Program& Trainer::step_program() { return program(GraphKind::kStep); }

Program& Trainer::eval_program(bool use_ema) {
  auto& slot = eval_programs_[use_ema];
  if (!slot) {
    require(!use_ema || config_.optimizer().ema_decay() > 0, Code::kInvalid,
            "evaluation with averaged weights needs optimizer ema_decay");
    slot = compile(
        build_eval_graph(instance_->model(), instance_->variables(), config_, use_ema).graph,
        instance_->segments());
  }
  return *slot;
}

void Trainer::load_batch(Program& program, std::span<const HostTensor> batch, int64_t batch_size,
                         bool allow_padding) {
  const auto& specs = inputs_;
  require(batch.size() == specs.size(), Code::kInvalid, "a batch of ",
          instance_->model().architecture(), " has ", specs.size(), " tensors, got ", batch.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const ValueType expected{specs[i].dtype, batch_dims(batch_size, specs[i].sample)};
    const ValueType actual{batch[i].dtype, batch[i].dims};
    require(actual == expected, Code::kInvalid, "batch tensor ", i, " (", specs[i].name, ") is ",
            actual, ", expected ", expected);
    require(batch[i].data != nullptr || expected.bytes() == 0, Code::kInvalid, "batch tensor ", i,
            " has no data");
    if (specs[i].classes > 0) check_labels(batch[i], specs[i], allow_padding);
  }
  if (mixup_ && !allow_padding) return load_mixed_batch(program, batch);
  for (size_t i = 0; i < specs.size(); ++i) {
    const Program::Slot& slot = program.input(specs[i].name);
    instance_->backend()->write(slot.data, batch[i].data, slot.type.bytes());
  }
}

void Trainer::load_mixed_batch(Program& program, std::span<const HostTensor> batch) {
  mixup_->mix(batches_, static_cast<const float*>(batch[0].data),
              static_cast<const int32_t*>(batch[1].data));
  const Program::Slot& image = program.input(inputs_[0].name);
  const Program::Slot& targets = program.input("targets");
  instance_->backend()->write(image.data, mixup_->images().data(), image.type.bytes());
  instance_->backend()->write(targets.data, mixup_->targets().data(), targets.type.bytes());
}

double Trainer::learning_rate() const {
  return config_.optimizer().learning_rate() * optim::schedule_factor(config_.schedule(), step_);
}

void Trainer::set_scalars(Program& program) {
  program.set_learning_rate(static_cast<float>(learning_rate()));
  program.set_random_step(batches_);
}

double Trainer::read_scalar(Program& program, std::string_view output) {
  float value = 0;
  instance_->backend()->read(&value, program.output(output).data, sizeof value);
  return value;
}

double Trainer::loss_scale() const {
  float value = 1;
  Segments& segments = instance_->segments();
  segments.backend().read(&value, segments.tensor(kLossScaleVariable, Role::kState).data,
                          sizeof value);
  return value;
}

StepInfo Trainer::begin_info() const {
  StepInfo info;
  info.learning_rate = learning_rate();
  info.loss_scale = loss_scale();
  return info;
}

void Trainer::finish_update(Program& program, StepInfo& info) {
  info.grad_norm = read_scalar(program, "grad_norm");
  info.skipped = read_scalar(program, "skip") != 0;
  if (info.skipped && config_.loss_scale().mode() != "dynamic") {
    fail(Code::kNonFinite, cat("step ", step_ + 1, ": the loss is ", info.loss,
                               " and the gradient norm ", info.grad_norm,
                               "; nothing was updated. Lower the learning rate, clip gradients, or "
                               "look for bad samples"));
  }
  info.updated = !info.skipped;
  ++step_;  // the schedule moves on even if loss scaling skipped this update
}

StepInfo Trainer::step(std::span<const HostTensor> batch) {
  if (config_.accumulate() > 1) {
    StepInfo info = backward(batch);
    if (micro_step_ < config_.accumulate()) return info;
    // Past cancelling: the gradients hold this batch already, and the caller would give it again.
    const StepInfo applied = apply(nullptr);
    const double seconds = info.seconds + applied.seconds;
    const double loss = info.loss;
    info = applied;
    info.loss = loss;
    info.seconds = seconds;
    return info;
  }
  require_between_updates();
  const auto start = std::chrono::steady_clock::now();
  Program& step = step_program();
  load_batch(step, batch, config_.batch_size(), false);
  set_scalars(step);
  StepInfo info = begin_info();
  step.run(&cancel_);
  last_program_ = &step;
  info.loss = last_loss_ = read_scalar(step, "loss");
  finish_update(step, info);
  ++batches_;
  samples_ += config_.batch_size();
  info.step = step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return info;
}

StepInfo Trainer::backward(std::span<const HostTensor> batch) {
  require(micro_step_ < config_.accumulate(), Code::kInvalid, "all ", config_.accumulate(),
          " micro-batches of this update are done; call apply");
  const auto start = std::chrono::steady_clock::now();
  Program& half = program(micro_step_ == 0 ? GraphKind::kBackwardFirst : GraphKind::kBackwardNext);
  load_batch(half, batch, config_.batch_size(), false);
  set_scalars(half);
  StepInfo info = begin_info();
  half.run(&cancel_);
  last_program_ = &half;
  info.loss = last_loss_ = read_scalar(half, "loss");
  ++micro_step_, ++batches_;
  samples_ += config_.batch_size();
  info.step = step_;
  info.micro_step = micro_step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return info;
}

StepInfo Trainer::apply() { return apply(&cancel_); }

StepInfo Trainer::apply(const std::atomic<bool>* cancel) {
  require(micro_step_ == config_.accumulate(), Code::kInvalid, "apply needs ", config_.accumulate(),
          " backward calls before it, got ", micro_step_);
  const auto start = std::chrono::steady_clock::now();
  Program& half = program(GraphKind::kApply);
  set_scalars(half);
  StepInfo info = begin_info();
  info.loss = last_loss_;
  half.run(cancel);
  micro_step_ = 0;
  finish_update(half, info);
  info.step = step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return info;
}

EvalSums Trainer::eval(std::span<const HostTensor> batch, bool use_ema) {
  Program& eval = eval_program(use_ema);
  load_batch(eval, batch, config_.eval_batch_size(), true);
  eval.run(&cancel_);
  last_program_ = &eval;
  EvalSums sums{read_scalar(eval, "loss"), 0, 0, 0};
  if (eval.find_output("top1") != nullptr) {
    sums.top1 = read_scalar(eval, "top1");
    sums.top5 = read_scalar(eval, "top5");
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].classes > 0) sums.samples = labelled_rows(batch[i]);
    if (inputs_[i].dense_target) sums.samples = rows_with_target(batch[i]);
  }
  return sums;
}

double Trainer::scalar(std::string_view output) {
  require(last_program_ != nullptr, Code::kInvalid, "no batch was trained or evaluated yet");
  const Program::Slot* slot = last_program_->find_output(output);
  if (slot != nullptr && slot->type == ValueType{}) return read_scalar(*last_program_, output);
  std::string known;
  for (const Program::Slot& candidate : last_program_->outputs()) {
    if (candidate.type == ValueType{}) known += cat(known.empty() ? "" : ", ", candidate.name);
  }
  fail(Code::kNotFound, cat("the last batch gave no scalar \"", output, "\"; it gave ", known));
}

void Trainer::set(std::string_view key, double value) {
  require(std::isfinite(value) && value > 0, Code::kInvalid, "trainer: ", key,
          " must be positive, got ", value);
  if (key == "learning_rate") {
    config_.mutable_optimizer()->set_learning_rate(value);
  } else if (key == "loss_scale") {
    require(config_.loss_scale().mode() != "none", Code::kInvalid, "trainer: loss scaling is off");
    write_state(instance_->segments(), kLossScaleVariable, static_cast<float>(value));
  } else {
    fail(Code::kNotFound, cat("trainer: nothing is called \"", key,
                              "\"; settable are learning_rate and loss_scale"));
  }
}

std::string Trainer::config_json() const { return to_json(config_); }

void Trainer::require_between_updates() const {
  require(micro_step_ == 0, Code::kInvalid, "this needs to stand between updates, but ",
          micro_step_, " of ", config_.accumulate(),
          " micro-batches are waiting; call apply first");
}

void Trainer::restore(int64_t step, int64_t batches, int64_t samples) {
  require_between_updates();
  step_ = step;
  batches_ = batches;
  samples_ = samples;
}

}  // namespace assay::train
