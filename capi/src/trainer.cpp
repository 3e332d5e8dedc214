// Trainers through the C interface. A call owns its model's storage while it runs, holds the batch
// for reading, and can be interrupted through the trainer's cancel flag.
#include "capi/src/trainer.h"
#include "capi/src/comm.h"

#include <chrono>

#include "capi/src/abi.h"
#include "capi/src/configuration.h"
#include "capi/src/tensor.h"
#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::capi {
namespace {

assay_step_info to_info(const train::StepInfo& info) {
  return {.step = info.step,
          .micro_step = info.micro_step,
          .samples = info.samples,
          .loss = info.loss,
          .grad_norm = info.grad_norm,
          .loss_scale = info.loss_scale,
          .learning_rate = info.learning_rate,
          .seconds = info.seconds,
          .flags = (info.updated ? uint32_t{ASSAY_STEP_UPDATED} : 0) |
                   (info.skipped ? uint32_t{ASSAY_STEP_SKIPPED_NONFINITE} : 0)};
}

void finish(const assay_trainer& trainer, const train::StepInfo& info, assay_step_info* out) {
  if (info.skipped) {
    trainer.model->context().log(ASSAY_LOG_WARNING, "trainer", "step ", info.step,
                                 " was skipped: a gradient is not finite at loss scale ",
                                 info.loss_scale);
  }
  if (out != nullptr) write_struct(out, "info", to_info(info));
}

// Of training: an interruption stops it at its next launch, and where it waits for other ranks.
Operation operation_of(assay_trainer& trainer) {
  Channel* const channel = trainer.impl.channel();
  return {trainer.model->context(), &trainer, trainer.impl.cancel_flag(),
          channel == nullptr ? nullptr : abort_channel, channel};
}

using TakeBatch = train::StepInfo (train::Trainer::*)(std::span<const train::HostTensor>);

assay_status run_batch(assay_trainer* t, TakeBatch take, const assay_tensor* const* batch, size_t n,
                       assay_step_info* info, assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    check_output(info, "info");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const BatchUse tensors(batch, n, "batch");
    const Operation operation = operation_of(trainer);
    finish(trainer, (trainer.impl.*take)(tensors.tensors()), info);
  });
}

constexpr size_t kMaxMetadataBytes = size_t{16} << 20;  // of one value

void check_metadata_key(std::string_view key) {
  expect(key.size() <= 255 && checkpoint::is_tensor_name(key), {"", "key"}, excerpt(key),
         "1 to 255 bytes of UTF-8 without control characters");
  expect(!key.starts_with("assay.") || key == kCursorKey, {"", "key"}, excerpt(key),
         "\"assay.cursor\", or a key that does not begin with \"assay.\"");
}

[[noreturn]] void fail_no_metadata(const assay_trainer& trainer, std::string_view key) {
  std::vector<std::string_view> known;
  for (const auto& [name, unused] : trainer.metadata) known.push_back(name);
  fail_unknown("the trainer has no metadata", "key", key, known);
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_trainer_create(assay_model* m, const assay_trainer_options* options,
                                  assay_str config_json, assay_trainer** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const auto& state = not_null(m, "m").impl;
    const train::TrainerConfig config =
        read_trainer_config(options, to_text(config_json, "config_json"));
    const ExclusiveUse use(state->access(), "model");
    require(!state->has_trainer, Code::kInvalid, "the model has a trainer already; free it first");
    auto trainer = std::make_unique<assay_trainer>(
        state, config, channel_of(read_struct(options, "options").comm));
    state->context().backend()->wait();  // others may read what was cleared in place
    state->context().log(ASSAY_LOG_INFO, "trainer", state->model()->architecture(), ", ",
                         trainer->impl.instance().variables().parameter_count(),
                         " parameters, batch ", trainer->impl.config().batch_size, ", ",
                         *trainer->impl.config().precision, ", ",
                         trainer->impl.config().optimizer.name);
    *out = trainer.release();
  });
}

assay_status assay_trainer_prefetch(assay_trainer* t, const assay_tensor* const* batch, size_t n,
                                    assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    // The trainer may read the batch later, so it shares the ownership of the caller's tensors.
    const auto held = std::make_shared<HeldBatch>(batch, n);
    trainer.impl.prefetch(held->tensors(), held);
  });
}

assay_status assay_trainer_step(assay_trainer* t, const assay_tensor* const* batch, size_t n,
                                assay_step_info* info, assay_error** err) {
  return run_batch(t, &train::Trainer::step, batch, n, info, err);
}

assay_status assay_trainer_backward(assay_trainer* t, const assay_tensor* const* batch, size_t n,
                                    assay_step_info* info, assay_error** err) {
  return run_batch(t, &train::Trainer::backward, batch, n, info, err);
}

assay_status assay_trainer_apply(assay_trainer* t, assay_step_info* info, assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    check_output(info, "info");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const Operation operation = operation_of(trainer);
    finish(trainer, trainer.impl.apply(), info);
  });
}

assay_status assay_trainer_eval(assay_trainer* t, const assay_tensor* const* batch, size_t n,
                                uint32_t flags, assay_eval_info* info, assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    check_bits(flags, ASSAY_EVAL_EMA, "flags", "ASSAY_EVAL_*");
    check_output(info, "info");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const BatchUse tensors(batch, n, "batch");
    const Operation operation(trainer.model->context(), &trainer, trainer.impl.cancel_flag());
    const auto start = std::chrono::steady_clock::now();
    const train::EvalOutputs& outputs =
        trainer.impl.eval(tensors.tensors(), (flags & ASSAY_EVAL_EMA) != 0);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (info == nullptr) return;
    // A view of the outputs by name; fields without an output of that name are 0.
    const train::EvalOutput loss = train::find_output(outputs, nn::kLoss);
    write_struct(info, "info",
                 assay_eval_info{.samples = static_cast<int64_t>(loss.weight),
                                 .loss_sum = loss.value,
                                 .top1 = train::find_output(outputs, "top1").value,
                                 .top5 = train::find_output(outputs, "top5").value,
                                 .seconds = elapsed.count()});
  });
}

assay_status assay_trainer_interrupt(const assay_trainer* t) {
  return guard(nullptr, [&] { not_null(t, "t").model->context().interrupt(t); });
}

assay_status assay_trainer_scalar(assay_trainer* t, assay_str name, double* value,
                                  assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    double& found = not_null(value, "value");
    const std::string_view wanted = to_text(name, "name");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    found = trainer.impl.scalar(wanted);
  });
}

assay_status assay_trainer_output(assay_trainer* t, assay_str name, assay_tensor** out,
                                  assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_trainer& trainer = not_null(t, "t");
    const std::string_view wanted = to_text(name, "name");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    const Program::Port& from = trainer.impl.evaluated(wanted);
    TensorOwner copy = new_tensor(trainer.model->shared_context(), from.type);
    trainer.model->context().backend()->read(copy->data, from.data, copy->bytes());
    *out = copy.release();
  });
}

assay_status assay_trainer_set(assay_trainer* t, assay_str key, double value, assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    const std::string_view name = to_text(key, "key");
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    trainer.impl.set(name, value);
  });
}

assay_status assay_trainer_set_metadata(assay_trainer* t, assay_str key, assay_str value,
                                        assay_error** err) {
  return guard(err, [&] {
    assay_trainer& trainer = not_null(t, "t");
    const std::string_view name = to_text(key, "key");
    check_metadata_key(name);
    const std::string_view bytes = to_text(value, "value");
    expect(name == kCursorKey || is_utf8(bytes), {"", "value"}, excerpt(bytes),
           "UTF-8; \"assay.cursor\" takes any bytes");
    expect(bytes.size() <= kMaxMetadataBytes, {"", "value"}, cat(bytes.size(), " bytes"),
           "at most ", kMaxMetadataBytes);
    const ExclusiveUse use(trainer.model->access(), "trainer or its model");
    // No bytes at all take the entry away; an empty text is a value.
    if (value.data == nullptr) {
      trainer.metadata.erase(std::string(name));
    } else {
      trainer.metadata.insert_or_assign(std::string(name), std::string(bytes));
    }
  });
}

assay_status assay_trainer_get_metadata(const assay_trainer* t, assay_str key, assay_str* value,
                                        assay_error** err) {
  return guard(err, [&] {
    const assay_trainer& trainer = not_null(t, "t");
    assay_str& found = not_null(value, "value");
    found = {nullptr, 0};
    const std::string_view name = to_text(key, "key");
    const SharedUse use(trainer.model->access(), "trainer or its model");
    const auto entry = trainer.metadata.find(name);
    if (entry == trainer.metadata.end()) fail_no_metadata(trainer, name);
    found = to_str(entry->second);
  });
}

void assay_trainer_free(assay_trainer* t) { delete t; }
