#include "sdk/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"
#include "sdk/base/utf8.h"
#include "sdk/optim/optimizer.h"
#include "sdk/optim/schedule.h"
#include "sdk/train/trainer_config.h"

namespace assay::train {
namespace {

// [batch, sample...]; on the stack, for steps allocate nothing.
Dims batch_dims(int64_t batch, const Dims& sample) {
  std::array<int64_t, Dims::kMaxRank> sizes{batch};
  std::copy(sample.span().begin(), sample.span().end(), sizes.begin() + 1);
  return Dims(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sample.rank()) + 1));
}

constexpr int32_t kPaddingLabel = -1;

// What mixes the batches of a trainer, if it is to.
std::optional<Mixup> make_mixup(const TrainerConfig& config, const nn::Model& model) {
  if (config.mixup_alpha() == 0) return std::nullopt;
  const std::vector<nn::InputSpec> inputs = model.inputs();
  expect(inputs.size() == 2 && inputs[0].dtype == DType::kF32 && inputs[1].classes > 0,
         {"trainer", "mixup_alpha"}, config.mixup_alpha(), "0: ", model.architecture(),
         " is no classifier of images");
  return Mixup({.alpha = config.mixup_alpha(),
                .label_smoothing = config.label_smoothing(),
                .seed = config.seed(),
                .batch = config.batch_size(),
                .classes = inputs[1].classes,
                .image_size = inputs[0].sample.numel()});
}

void check_labels(const HostTensor& tensor, const nn::InputSpec& spec, int32_t lowest) {
  const auto* labels = static_cast<const int32_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.dims.numel(); ++i) {
    if (labels[i] < lowest || labels[i] >= spec.classes) [[unlikely]]
      fail_mismatch(Code::kInvalid, {cat(spec.name, "[", i, "]"), spec.name, cat(labels[i]),
                                     cat("a class in [0, ", spec.classes, ")")});
  }
}

std::string tensor_count(size_t count) { return count == 1 ? "1 tensor" : cat(count, " tensors"); }

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

float initial_loss_scale(const TrainerConfig& config) {
  return config.loss_scale().mode() == "none" ? 1
                                              : static_cast<float>(config.loss_scale().initial());
}

template <class T>
T read_state(const Segments& segments, std::string_view name) {
  T value{};
  segments.backend().read(&value, segments.tensor(name, Role::kState).data, sizeof value);
  return value;
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
}

}  // namespace

Trainer::Trainer(std::shared_ptr<ModelInstance> instance, TrainerConfig config)
    : instance_(std::move(instance)),
      inputs_(instance_->model().inputs()),
      config_(with_defaults(std::move(config))),
      learning_rate_(config_.optimizer().learning_rate()) {
  check(config_);
  check_raw_images(inputs_, config_);
  training_arrays_ = training_arrays(inputs_, config_);
  mixup_ = make_mixup(config_, instance_->model());
  optim::resolve_groups(config_.optimizer(), instance_->variables());
  build_training_graph(instance_->model(), instance_->variables(), config_, GraphKind::kStep,
                       instance_->backend()->target());  // all errors surface now
  Segments& segments = instance_->segments();
  instance_->initialize_once(config_.seed());
  segments.ensure(Role::kGradient);
  segments.ensure(Role::kState);
  for (const Role role : optim::state_roles(config_.optimizer())) segments.ensure(role);
  forget_training(segments);
  instance_->restart_averages();
  instance_->set_has_averages(config_.optimizer().ema_decay() > 0);
  write_state(segments, kLossScaleVariable, initial_loss_scale(config_));
  write_state(segments, kStepVariable, int64_t{0});
  write_state(segments, kGoodStepsVariable, int32_t{0});
  statistics_ = segments.all();
  std::erase_if(statistics_, [](const SegmentTensor& t) { return t.role != Role::kStatistic; });
  size_t bytes = 0;
  for (const SegmentTensor& tensor : statistics_) bytes += tensor.bytes();
  statistics_before_.resize(bytes);
}

Program& Trainer::program(GraphKind kind) {
  auto& slot = programs_[kind];
  if (!slot) {
    BuiltGraph built = build_training_graph(instance_->model(), instance_->variables(), config_,
                                            kind, instance_->backend()->target());
    pass_records_ = std::move(built.passes);
    slot = compile(std::move(built.graph), instance_->segments());
  }
  return *slot;
}

Program& Trainer::step_program() { return program(GraphKind::kStep); }

Program& Trainer::eval_program(bool use_ema) {
  auto& slot = eval_programs_[use_ema];
  if (!slot) {
    expect(!use_ema || instance_->has_averages(), {"trainer", "optimizer.ema_decay"}, 0,
           "more than 0 for evaluation with moving averages");
    slot = compile(build_eval_graph(instance_->model(), instance_->variables(), config_, use_ema,
                                    instance_->backend()->target())
                       .graph,
                   instance_->segments());
  }
  return *slot;
}

void Trainer::check_batch(std::span<const nn::InputSpec> specs, std::span<const HostTensor> batch,
                          int64_t batch_size, int32_t lowest_label) const {
  if (batch.size() != specs.size()) [[unlikely]]
    fail_mismatch(Code::kInvalid, {cat("a batch of ", instance_->model().architecture()), "n",
                                   tensor_count(batch.size()),
                                   cat(tensor_count(specs.size()), ": ", nn::names_of(specs))});
  for (size_t i = 0; i < specs.size(); ++i) {
    const nn::InputSpec& spec = specs[i];
    const ValueType expected{spec.dtype, batch_dims(batch_size, spec.sample)};
    const ValueType actual{batch[i].dtype, batch[i].dims};
    const bool missing = batch[i].data == nullptr && expected.bytes() > 0;
    if (actual != expected || missing) [[unlikely]]
      fail_mismatch(Code::kInvalid,
                    {cat("batch tensor ", i, " (", spec.name, ")"), spec.name,
                     missing ? "without data" : to_text(actual), to_text(expected)});
    if (spec.classes > 0) check_labels(batch[i], spec, lowest_label);
  }
}

void Trainer::write_batch(Program& program, std::span<const HostTensor> batch) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Program::Slot& slot = program.input(inputs_[i].name);
    instance_->backend()->write(slot.data, batch[i].data, slot.type.bytes());
  }
}

void Trainer::write_mixed_batch(Program& program, std::span<const HostTensor> batch) {
  mixup_->mix(batches_, static_cast<const float*>(batch[0].data),
              static_cast<const int32_t*>(batch[1].data));
  const Program::Slot& image = program.input(inputs_[0].name);
  const Program::Slot& targets = program.input("targets");
  instance_->backend()->write(image.data, mixup_->images().data(), image.type.bytes());
  instance_->backend()->write(targets.data, mixup_->targets().data(), targets.type.bytes());
}

TrainingFeed& Trainer::feed() {
  if (!feed_) {
    feed_ = std::make_unique<TrainingFeed>(*instance_->backend(), inputs_, config_,
                                           mixup_ ? &*mixup_ : nullptr);
  }
  return *feed_;
}

void Trainer::prefetch(std::span<const HostTensor> batch) {
  check_batch(training_arrays_, batch, config_.batch_size(), 0);
  require(pending_count_ == 0, Code::kInvalid,
          "two prefetched batches wait already; train on one first");
  if (feed().staged() == 0) return feed_->stage(batch, batches_);
  require(batch.size() <= kMostInputs, Code::kUnsupported, "a batch of ", batch.size(),
          " tensors cannot be prefetched");
  std::copy(batch.begin(), batch.end(), pending_.begin());
  pending_count_ = batch.size();
}

// While the batch before it is computed on.
void Trainer::stage_pending() {
  if (pending_count_ == 0) return;
  feed_->stage({pending_.data(), pending_count_}, batches_ + 1);
  pending_count_ = 0;
}

void Trainer::forget_prefetched() {
  pending_count_ = 0;
  if (feed_) feed_->clear();
}

template <class Body>
StepInfo Trainer::forgetting_on_failure(const Body& body) {
  try {
    return body();
  } catch (...) {
    forget_prefetched();
    throw;
  }
}

void Trainer::load_training_batch(Program& program, std::span<const HostTensor> batch) {
  const bool waits = feed_ && feed_->staged() > 0;
  if (batch.empty() && waits) return feed_->deliver(program);
  check_batch(training_arrays_, batch, config_.batch_size(), 0);
  require(!waits, Code::kInvalid,
          "a prefetched batch waits: train on it, which an empty batch stands for");
  if (config_.has_raw_images()) {
    feed().stage(batch, batches_);
    feed_->deliver(program);
  } else if (mixup_) {
    write_mixed_batch(program, batch);
  } else {
    write_batch(program, batch);
  }
}

double Trainer::learning_rate() const {
  return learning_rate_ * optim::schedule_factor(config_.schedule(), step_);
}

void Trainer::set_scalars(Program& program) {
  const double rate = learning_rate();
  if (!(rate <= kMaxF32)) [[unlikely]]
    fail_mismatch(Code::kInvalid,
                  {cat("the learning rate of step ", step_ + 1), "learning_rate", cat(rate),
                   cat("at most ", kMaxF32, ", which devices compute with"),
                   "lower it or the factors of the schedule"});
  program.set_learning_rate(static_cast<float>(rate));
  program.set_random_step(batches_);
}

double Trainer::read_scalar(Program& program, std::string_view output) {
  float value = 0;
  instance_->backend()->read(&value, program.output(output).data, sizeof value);
  return value;
}

double Trainer::current_loss_scale() {
  if (!loss_scale_) loss_scale_ = static_cast<float>(loss_scale());
  return *loss_scale_;
}

double Trainer::loss_scale() const {
  return read_state<float>(instance_->segments(), kLossScaleVariable);
}

int64_t Trainer::update_count() const {
  return read_state<int64_t>(instance_->segments(), kStepVariable);
}

int64_t Trainer::good_steps() const {
  return read_state<int32_t>(instance_->segments(), kGoodStepsVariable);
}

StepInfo Trainer::begin_info() {
  StepInfo info;
  info.learning_rate = learning_rate();
  info.loss_scale = current_loss_scale();
  return info;
}

// Running statistics follow each backward, before it is known whether its update will be done.
void Trainer::remember_statistics() {
  std::byte* saved = statistics_before_.data();
  for (const SegmentTensor& tensor : statistics_) {
    instance_->backend()->read(saved, tensor.data, tensor.bytes());
    saved += tensor.bytes();
  }
}

void Trainer::take_back_statistics() {
  const std::byte* saved = statistics_before_.data();
  for (const SegmentTensor& tensor : statistics_) {
    instance_->backend()->write(tensor.data, saved, tensor.bytes());
    saved += tensor.bytes();
  }
}

void Trainer::finish_update(Program& program, StepInfo& info) {
  float loss = 0, norm = 0, skip = 0, scale = 0;
  const Program::Slot* loss_slot = program.find_output("loss");
  const auto reads = std::to_array<HostRead>(
      {{&norm, program.output("grad_norm").data, sizeof norm},
       {&skip, program.output("skip").data, sizeof skip},
       {&scale, instance_->segments().tensor(kLossScaleVariable, Role::kState).data, sizeof scale},
       {&loss, loss_slot == nullptr ? nullptr : loss_slot->data,
        loss_slot == nullptr ? 0 : sizeof loss}});
  instance_->backend()->read_all(std::span(reads).first(loss_slot == nullptr ? 3 : 4));
  if (loss_slot != nullptr) info.loss = last_loss_ = loss;
  loss_scale_ = scale;
  info.grad_norm = norm;
  info.skipped = skip != 0;
  const bool refused = info.skipped && config_.loss_scale().mode() != "dynamic";
  if (micro_step_ > 0) finish_accumulation(info.skipped, refused);
  if (refused) {
    fail(Code::kNonFinite, cat("step ", step_ + 1, ": the loss is ", info.loss,
                               " and the gradient norm ", info.grad_norm,
                               "; nothing was updated. Lower the learning rate, clip gradients, or "
                               "look for bad samples"));
  }
  info.updated = !info.skipped;
  ++step_;  // the schedule moves on even if loss scaling skipped this update
}

// When the update is not done, what its batches left behind goes too.
void Trainer::finish_accumulation(bool skipped, bool refused) {
  if (skipped) take_back_statistics();
  if (refused) {
    batches_ -= micro_step_;
    samples_ -= micro_step_ * config_.batch_size();
  }
  micro_step_ = 0;
}

StepInfo Trainer::step(std::span<const HostTensor> batch) {
  return forgetting_on_failure([&] { return step_at_once(batch); });
}

StepInfo Trainer::step_at_once(std::span<const HostTensor> batch) {
  if (config_.accumulate() > 1) {
    StepInfo info = backward_at_once(batch);
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
  load_training_batch(step, batch);
  set_scalars(step);
  StepInfo info = begin_info();
  step.run(&cancel_);
  last_program_ = &step;
  stage_pending();
  finish_update(step, info);
  ++batches_;
  samples_ += config_.batch_size();
  info.step = step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return info;
}

StepInfo Trainer::backward(std::span<const HostTensor> batch) {
  return forgetting_on_failure([&] { return backward_at_once(batch); });
}

StepInfo Trainer::backward_at_once(std::span<const HostTensor> batch) {
  if (micro_step_ == config_.accumulate()) [[unlikely]]
    fail_micro_step(cat("fewer than ", config_.accumulate(), " before another"),
                    "call apply first");
  const auto start = std::chrono::steady_clock::now();
  Program& half = program(micro_step_ == 0 ? GraphKind::kBackwardFirst : GraphKind::kBackwardNext);
  load_training_batch(half, batch);
  set_scalars(half);
  StepInfo info = begin_info();
  if (micro_step_ == 0) remember_statistics();
  half.run(&cancel_);
  last_program_ = &half;
  stage_pending();
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
  if (micro_step_ != config_.accumulate()) [[unlikely]]
    fail_micro_step(cat(config_.accumulate(), " before apply"), "call backward for the others");
  const auto start = std::chrono::steady_clock::now();
  Program& half = program(GraphKind::kApply);
  set_scalars(half);
  StepInfo info = begin_info();
  info.loss = last_loss_;
  half.run(cancel);
  finish_update(half, info);
  info.step = step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return info;
}

EvalSums Trainer::eval(std::span<const HostTensor> batch, bool use_ema) {
  Program& eval = eval_program(use_ema);
  check_batch(inputs_, batch, config_.eval_batch_size(), kPaddingLabel);
  write_batch(eval, batch);
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
  std::vector<std::string_view> known;
  for (const Program::Slot& slot : last_program_->outputs()) {
    if (slot.type != ValueType{}) continue;
    if (slot.name == output) return read_scalar(*last_program_, output);
    known.push_back(slot.name);
  }
  fail_unknown("the last batch gave no scalar", "name", output, known);
}

void Trainer::set(std::string_view key, double value) {
  constexpr std::string_view kKeys[] = {"learning_rate", "loss_scale"};
  if (key != kKeys[0] && key != kKeys[1])
    fail_unknown("trainer: nothing to set is called", "key", key, kKeys);
  expect_number({"trainer", key}, value, {0, kMaxF32, true, false});
  if (key == "learning_rate") {
    learning_rate_ = value;
    return;
  }
  expect(config_.loss_scale().mode() != "none", {"trainer", "loss_scale.mode"}, "\"none\"",
         "\"static\" or \"dynamic\" where loss_scale is set");
  write_state(instance_->segments(), kLossScaleVariable, static_cast<float>(value));
  loss_scale_.reset();
}

std::string Trainer::config_json() const { return to_json(config_); }

void Trainer::fail_micro_step(std::string expected, std::string hint) const {
  fail_mismatch(Code::kInvalid,
                {"trainer: the number of backward calls since the last update", "accumulate",
                 cat(micro_step_), std::move(expected), std::move(hint)});
}

void Trainer::require_between_updates() const {
  if (micro_step_ != 0) [[unlikely]]
    fail_micro_step("0 for this call", "finish the update first: backward, then apply");
}

void Trainer::restore(const Progress& progress) {
  require_between_updates();
  step_ = progress.step;
  batches_ = progress.batches;
  samples_ = progress.samples;
  learning_rate_ = progress.learning_rate;
  loss_scale_.reset();
  forget_prefetched();
}

}  // namespace assay::train
