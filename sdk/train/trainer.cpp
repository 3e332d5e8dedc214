// One call, one program: the batch and the step's scalars are written, the program runs, its
// scalars are read. The device decides whether an update is done (`skip`); the host learns it
// afterwards, and its counters follow.
#include "sdk/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/base/version.h"
#include "sdk/optim/optimizer.h"
#include "sdk/optim/schedule.h"
#include "sdk/train/trainer_config.h"

namespace assay::train {
namespace {

// The model as this configuration trains it.
std::shared_ptr<const nn::Model> trained_model(const ModelInstance& instance,
                                               const TrainerConfig& config) {
  const nn::TrainingOptions options = training_options(config);
  return options == nn::TrainingOptions{} ? instance.shared_model()
                                          : instance.model().configured(options);
}

// " (not finite: mlm_loss)": which parts of the loss are not.
std::string broken_parts(const TrainerProgram& program) {
  std::string parts;
  for (const TrainerProgram::Scalar& scalar : program.scalars()) {
    const bool is_told = scalar.name == "loss" || scalar.name == "grad_norm";
    if (is_told || std::isfinite(scalar.value)) continue;
    parts += cat(parts.empty() ? " (not finite: " : ", ", scalar.name);
  }
  return parts.empty() ? parts : parts + ")";
}

TrainerConfig checked(TrainerConfig config, const Channel* channel) {
  config = with_devices(std::move(config), channel);
  check(config);
  return config;
}

float initial_loss_scale(const TrainerConfig& config) {
  return config.loss_scale.mode == "none" ? 1
                                          : static_cast<float>(config.loss_scale.initial.value());
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
  for (const Role role : {Role::kGradient, Role::kMoment1, Role::kMoment2}) segments.clear(role);
}

}  // namespace

Trainer::Trainer(std::shared_ptr<ModelInstance> instance, TrainerConfig config,
                 std::shared_ptr<Channel> channel)
    : instance_(std::move(instance)),
      channel_(std::move(channel)),
      config_(checked(std::move(config), channel_.get())),
      model_(trained_model(*instance_, config_)),
      training_arrays_(model_->inputs(nn::Mode::kTrain), config_.batch_size, config_.seed),
      eval_arrays_(model_->inputs(nn::Mode::kEval), *config_.eval_batch_size, config_.seed),
      prefetched_(*instance_->backend(), training_arrays_),
      programs_(*instance_, *model_, config_, channel_.get()),
      batches_(rank()),
      learning_rate_(config_.optimizer.learning_rate),
      statistics_(instance_->segments(), *config_.emulated_devices / ranks()) {
  optim::resolve_groups(config_.optimizer, instance_->variables());
  programs_.build_update();  // all errors surface now
  Segments& segments = instance_->segments();
  segments.keep_apart(false);
  segments.ensure(Role::kGradient);
  segments.ensure(Role::kState);
  for (const Role role : optim::state_roles(config_.optimizer)) segments.ensure(role);
  instance_->ensure_initialized(config_.seed);  // once nothing can fail: fresh weights stay fresh
  forget_training(segments);
  if (channel_ != nullptr) begin_alike();
  instance_->restart_averages();
  instance_->set_averaged(optim::averaged_roles(config_.optimizer));
  write_state(segments, kLossScaleVariable, initial_loss_scale(config_));
  write_state(segments, kStepVariable, int64_t{0});
  write_state(segments, kGoodStepsVariable, int32_t{0});
}

void Trainer::begin_alike() {
  require_agreement(*channel_, "version of the library", kLibraryVersion);
  require_agreement(*channel_, "model", instance_->model().architecture());
  const auto require_alike = [&](std::string_view what, const std::string& mine) {
    const std::vector<std::string> all = channel_->gather(mine);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const auto difference = first_difference(all[0], all[rank]);
      if (!difference) continue;
      fail(Code::kComm,
           cat("rank ", rank, " has ", what, ".", difference->key, " ", difference->theirs,
               ", rank 0 has ", difference->ours),
           {.argument = difference->key,
            .expected = difference->ours,
            .actual = difference->theirs,
            .hint = "configure every rank alike"});
    }
  };
  require_alike("model", instance_->model().config_json());
  require_alike("trainer", config_json());
  std::vector<ScheduledLaunch> launches;
  for (const Role role : {Role::kValue, Role::kStatistic}) {
    const Memory& memory = instance_->segments().memory(role);
    launches.emplace_back(channel_->broadcast(memory.data(), memory.bytes()));
  }
  instance_->backend()->make_executable(std::move(launches), 0)->run(nullptr);
  instance_->backend()->wait();
}

void Trainer::check_training_batch(std::span<const HostTensor> batch) const {
  training_arrays_.check(model_->architecture(), batch);
}

void Trainer::prefetch(std::span<const HostTensor> batch, std::shared_ptr<const void> keep) {
  check_training_batch(batch);
  // The number that the batch will have at its step: what is drawn for it depends on that alone.
  const auto before = static_cast<int64_t>(prefetched_.waiting());
  prefetched_.push(batch, batches_ + before * ranks(), std::move(keep));
}

template <class Body>
StepInfo Trainer::with_prefetched_dropped_on_failure(const Body& body) {
  try {
    return body();
  } catch (...) {
    prefetched_.clear();
    throw;
  }
}

TrainerProgram& Trainer::program_with(GraphKind kind, std::span<const HostTensor> batch) {
  if (!batch.empty()) check_training_batch(batch);
  evaluated_program_ = nullptr;
  TrainerProgram& found =
      !config_.packed
          ? programs_.get(kind)
          : programs_.get(kind, batch.empty() ? prefetched_.filled_sixteenths()
                                              : training_arrays_.filled_sixteenths(batch));
  if (batch.empty())
    prefetched_.deliver(found.program());
  else
    training_arrays_.write(found.program(), batch, batches_);
  return found;
}

// The place in the schedule.
int64_t Trainer::schedule_step() const {
  return config_.schedule.on_skip == "hold" ? updates_ : step_;
}

double Trainer::learning_rate() const {
  return learning_rate_ * optim::schedule_factor(config_.schedule, schedule_step());
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

// Read from the device once; each update brings the next one along with its other scalars.
double Trainer::current_loss_scale() {
  if (!loss_scale_) loss_scale_ = static_cast<float>(loss_scale());
  return *loss_scale_;
}

double Trainer::loss_scale() const {
  return read_state<float>(instance_->segments(), kLossScaleVariable);
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

StepInfo Trainer::end_info(StepInfo info, Clock::time_point start) const {
  info.step = step_;
  info.micro_step = micro_step_;
  info.samples = samples_;
  info.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return info;
}

namespace {

// Where another rank does not come, gradients are not summed up, and the device skips the update
// (decision 0017).
bool skips_update(const Error& error) {
  return error.code() == Code::kTimeout || error.code() == Code::kComm;
}

}  // namespace

void Trainer::run(Program& program, const std::atomic<bool>* cancel) {
  try {
    program.run(cancel);
  } catch (const Error& error) {
    is_lost_ = program.in_doubt() && !skips_update(error);
    throw;
  } catch (...) {
    is_lost_ = program.in_doubt();
    throw;
  }
}

// Unless its numbers come back, nobody knows whether the update is done.
void Trainer::read_update(TrainerProgram& program, std::span<const HostRead> more) {
  is_lost_ = true;
  try {
    program.read_scalars(more);
  } catch (const Error& error) {
    is_lost_ = !skips_update(error);
    throw;
  }
  is_lost_ = false;
}

void Trainer::lose() {
  is_lost_ = true;
  if (channel_ != nullptr) channel_->abort();
}

void Trainer::finish_update(TrainerProgram& program, StepInfo& info) {
  float scale = 0;
  const HostRead scale_read{
      &scale, instance_->segments().tensor(kLossScaleVariable, Role::kState).data, sizeof scale};
  const auto read = [&] { read_update(program, {&scale_read, 1}); };  // a GPU fails here
  with_others(std::cref(read));  // too large for a function without an allocation
  if (const auto* loss = program.find_scalar("loss")) info.loss = last_loss_ = loss->value;
  loss_scale_ = scale;
  info.grad_norm = program.scalar("grad_norm");
  info.skipped = program.scalar("skip") != 0;
  // Only dynamic loss scaling expects numbers that are not finite.
  const bool refused = info.skipped && config_.loss_scale.mode != "dynamic";
  if (micro_step_ > 0) finish_accumulation(info.skipped, refused);
  if (refused) {
    fail(Code::kNonFinite, cat("step ", step_ + 1, ": the loss is ", info.loss,
                               broken_parts(program), " and the gradient norm ", info.grad_norm,
                               "; nothing was updated. Lower the learning rate, clip gradients, or "
                               "look for bad samples"));
  }
  info.updated = !info.skipped;
  ++step_;
  if (info.updated) ++updates_;  // as CountStep does on the device
}

// When the update is not done, what its batches left behind goes too.
void Trainer::finish_accumulation(bool skipped, bool refused) {
  if (skipped) {
    whole_after([&] {
      statistics_.put_back();
      instance_->backend()->wait();  // others may read them in place
    });
  }
  if (refused) {
    batches_ -= micro_step_ * ranks();
    samples_ -= micro_step_ * ranks() * config_.batch_size;
  }
  micro_step_ = 0;
}

void Trainer::require_whole() const {
  if (!is_lost_) [[likely]]
    return;
  try {
    instance_->backend()->wait();
  } catch (const Error& error) {
    if (error.code() == Code::kPoisoned) throw;  // the device is lost itself, and says more
  }
  fail(Code::kPoisoned,
       "a failure of the device has left an update of this trainer, or a load, half done",
       {.hint = "free it, and go on from a checkpoint with a new one"});
}

// Refused before anything is done: what waits stays.
void Trainer::require_turn(std::span<const HostTensor> batch) const {
  require_whole();
  const bool waits = prefetched_.waiting() > 0;
  require(!waits || batch.empty(), Code::kInvalid,
          "a prefetched batch waits: train on it first, by giving an empty batch");
  if (!waits && batch.empty()) [[unlikely]]  // the names are put together on failure only
    fail(Code::kInvalid, cat("the batch is empty, and no prefetched batch waits: give ",
                             nn::names_of(training_inputs())));
}

StepInfo Trainer::step(std::span<const HostTensor> batch) {
  require_turn(batch);
  return with_prefetched_dropped_on_failure([&] { return run_step(batch); });
}

// What is done stays done: a batch that finds no memory now is as if it had not been prefetched.
void Trainer::read_noted() noexcept {
  try {
    prefetched_.read_noted();
  } catch (...) {
    prefetched_.clear();
  }
}

// After a failure in the middle the next sum would meet another one of theirs.
void Trainer::with_others(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    if (channel_ != nullptr) channel_->abort();
    throw;
  }
}

void Trainer::run_with_others(Program& program, const std::atomic<bool>* cancel) {
  const auto run_program = [&] { run(program, cancel); };
  with_others(std::cref(run_program));
  if (channel_ == nullptr) return;
  const QueueTimes times = program.queue_times();
  ++communication_.updates;
  const auto numbers = instance_->segments().bytes(Role::kGradient) / dtype_size(DType::kF32);
  communication_.bytes += numbers * dtype_size(gradient_wire(config_).value_or(DType::kF32));
  communication_.seconds += times.communication;
  communication_.waited += times.waited;
}

StepInfo Trainer::run_step(std::span<const HostTensor> batch) {
  if (batches_of_update() > 1) {
    const StepInfo info = run_backward(batch);
    if (micro_step_ < batches_of_update()) return info;
    // Past cancelling: the gradients hold this batch already, and the caller would give it again.
    StepInfo applied = run_apply(nullptr);
    applied.seconds += info.seconds;
    return applied;
  }
  require_between_updates();
  const auto start = Clock::now();
  TrainerProgram& step = program_with(GraphKind::kStep, batch);
  set_scalars(step.program());
  StepInfo info = begin_info();
  run_with_others(step.program(), &cancel_);
  last_programs_ = {&step};
  // On a GPU, run() has only put the work on its queue: this goes on beside it.
  read_noted();
  finish_update(step, info);
  batches_ += ranks();
  samples_ += ranks() * config_.batch_size;
  return end_info(info, start);
}

StepInfo Trainer::backward(std::span<const HostTensor> batch) {
  require_turn(batch);
  return with_prefetched_dropped_on_failure([&] { return run_backward(batch); });
}

StepInfo Trainer::run_backward(std::span<const HostTensor> batch) {
  if (micro_step_ == batches_of_update()) [[unlikely]]
    fail_micro_step(cat("fewer than ", batches_of_update(), " before another"),
                    "call apply first, which makes the update");
  const auto start = Clock::now();
  TrainerProgram& half =
      program_with(micro_step_ == 0 ? GraphKind::kBackwardFirst : GraphKind::kBackwardNext, batch);
  set_scalars(half.program());
  StepInfo info = begin_info();
  // They follow each backward, before it is known whether its update will be done.
  if (micro_step_ == 0) statistics_.take();
  whole_after([&] { statistics_.select(micro_step_ % statistics_.devices()); });
  run(half.program(), &cancel_);
  last_programs_ = {&half};
  read_noted();
  whole_after([&] { half.read_scalars(); });
  info.loss = last_loss_ = half.scalar("loss");
  ++micro_step_, batches_ += ranks();
  samples_ += ranks() * config_.batch_size;
  return end_info(info, start);
}

StepInfo Trainer::apply() {
  return with_prefetched_dropped_on_failure([&] { return run_apply(&cancel_); });
}

StepInfo Trainer::run_apply(const std::atomic<bool>* cancel) {
  require_whole();
  if (micro_step_ != batches_of_update()) [[unlikely]]
    fail_micro_step(cat(batches_of_update(), " before apply"), "call backward for the others");
  const auto start = Clock::now();
  evaluated_program_ = nullptr;
  TrainerProgram& half = programs_.get(GraphKind::kApply);
  set_scalars(half.program());
  whole_after([&] { statistics_.select(0); });
  StepInfo info = begin_info();
  info.loss = last_loss_;
  run_with_others(half.program(), cancel);
  last_programs_[1] = &half;
  finish_update(half, info);
  return end_info(info, start);
}

const EvalOutputs& Trainer::eval(std::span<const HostTensor> batch, bool use_ema) {
  require_whole();
  expect(!use_ema || !instance_->averaged().empty(), {"trainer", "optimizer.ema_decay"}, 0,
         "more than 0 for evaluation with moving averages");
  eval_arrays_.check(model_->architecture(), batch);
  const GraphKind kind = use_ema ? GraphKind::kEvalEma : GraphKind::kEval;
  evaluated_program_ = nullptr;
  TrainerProgram& eval = config_.packed ? programs_.get(kind, eval_arrays_.filled_sixteenths(batch))
                                        : programs_.get(kind);
  // What is drawn in evaluation is drawn alike for every batch, however much was trained before.
  eval_arrays_.write(eval.program(), batch, 0);
  eval.program().set_random_step(0);
  run_on_statistics_of(evaluated_device_, eval.program());
  last_programs_ = {&eval};
  eval.read_scalars();
  evaluated_program_ = &eval;
  evaluated_.clear();
  for (const TrainerProgram::Scalar& scalar : eval.scalars()) {
    if (!scalar.is_weight)
      evaluated_.push_back({scalar.name, scalar.reduction, scalar.value, eval.weight_of(scalar)});
  }
  return evaluated_;
}

// The model has the first device's statistics behind it, and in front of it, but in the middle of
// an accumulation.
void Trainer::run_on_statistics_of(int64_t device, Program& program) {
  if (statistics_.devices() == 1) return program.run(&cancel_);
  statistics_.reserve();
  const auto select = [&](int64_t other) { whole_after([&] { statistics_.select(other); }); };
  select(device);
  try {
    program.run(&cancel_);
  } catch (...) {
    select(0);
    throw;
  }
  select(0);
}

EvalOutput find_output(const EvalOutputs& outputs, std::string_view name) {
  const auto found = std::ranges::find(outputs, name, &EvalOutput::name);
  return found == outputs.end() ? EvalOutput{} : *found;
}

double Trainer::scalar(std::string_view output) {
  require(last_programs_[0] != nullptr, Code::kInvalid, "no batch was trained or evaluated yet");
  for (const TrainerProgram* program : last_programs_) {
    const auto* scalar = program == nullptr ? nullptr : program->find_scalar(output);
    if (scalar != nullptr) return scalar->value;
  }
  fail_no_scalar(output);
}

const Program::Port& Trainer::evaluated(std::string_view output) const {
  require(evaluated_program_ != nullptr, Code::kInvalid,
          "the last batch was not evaluated, or its tensors have been overwritten since: read them "
          "right after the evaluation");
  const Program& program = evaluated_program_->program();
  if (const Program::Port* found = program.find_output(output)) return *found;
  std::vector<std::string_view> known;
  for (const Program::Port& port : program.outputs()) known.push_back(port.name);
  fail_unknown("the evaluation gave nothing", "name", output, known);
}

void Trainer::fail_no_scalar(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const TrainerProgram* program : last_programs_) {
    if (program == nullptr) continue;
    for (const TrainerProgram::Scalar& scalar : program->scalars()) {
      if (!scalar.is_weight) known.push_back(scalar.name);
    }
  }
  if (is_evaluated(name)) {
    const std::string hint = "evaluate a batch: evaluations compute it";
    fail(Code::kNotFound,
         cat("the last batch was trained, which gives no ", excerpt(name), "; ", hint,
             "; there are ", enumerate(known, false, " and ")),
         {.argument = "name",
          .expected = enumerate(known),
          .actual = std::string(name),
          .hint = hint});
  }
  fail_unknown("the last batch gave no scalar", "name", name, known);
}

bool Trainer::is_evaluated(std::string_view name) const {
  Graph graph;
  VariableTable variables;
  nn::Builder b(graph, nn::Mode::kEval, *config_.eval_batch_size, variables, config_.seed);
  return std::ranges::any_of(model_->forward(b), [&](const nn::Output& output) {
    const bool is_it = output.name == name && b.dims(output.value).rank() == 0;
    return is_it || (output.weight.valid() && output.name + ".weight" == name);
  });
}

void Trainer::set(std::string_view key, double value) {
  constexpr std::string_view kKeys[] = {"learning_rate", "loss_scale", "evaluated_device"};
  if (std::ranges::find(kKeys, key) == std::end(kKeys))
    fail_unknown("trainer: nothing to set is called", "key", key, kKeys);
  if (key == "evaluated_device") {
    const auto last = static_cast<double>(statistics_.devices() - 1);
    expect_number({"trainer", key}, value, {0, last, true, true});
    expect(value == std::floor(value), {"trainer", key}, value, "a whole number");
    evaluated_device_ = static_cast<int64_t>(value);
    return;
  }
  if (key == "learning_rate") {
    expect_number({"trainer", key}, value, {0, kMaxF32, true, false});
    learning_rate_ = value;
    return;
  }
  expect_number({"trainer", key}, value, optim::kLossScales);
  require_between_updates();  // the sum of the gradients has one scale
  expect(config_.loss_scale.mode != "none", {"trainer", "loss_scale.mode"}, "\"none\"",
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
  require_whole();
  if (micro_step_ != 0) [[unlikely]]
    fail_micro_step("0 for this call",
                    "make the update first: call apply, once all batches of it went backward");
}

void Trainer::restore(const Progress& progress) {
  step_ = progress.step;
  // The device's own count has just been loaded with the segments of role kState.
  updates_ = read_state<int64_t>(instance_->segments(), kStepVariable);
  batches_ = progress.batches + rank();
  samples_ = progress.samples;
  learning_rate_ = progress.learning_rate;
  loss_scale_.reset();
  prefetched_.clear();
}

}  // namespace assay::train
