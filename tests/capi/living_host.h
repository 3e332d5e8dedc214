// A life of a host, from the model to what it serves, in which any call may fail.
#pragma once

#include <array>
#include <cstdio>
#include <utility>

#include "tests/capi/support.h"

namespace assay::test {

// Calls one after the other, each once more if it fails. Plain memory, for where allocations fail.
class Host {
 public:
  template <class... P, class... A>
  void operator()(assay_status (*f)(P...), A... arguments) {
    if (stuck_) return;
    ++calls_;
    assay_error* error = nullptr;
    assay_status status = f(arguments..., &error);
    if (status == ASSAY_OK) return;
    if (failed_ == ASSAY_OK) failed_ = status, failed_call_ = calls_;
    assay_error_free(std::exchange(error, nullptr));
    status = f(arguments..., &error);
    if (status == ASSAY_OK) return;
    stuck_ = true;
    assay_error_info info{.struct_size = sizeof info};
    if (error != nullptr && assay_error_get(error, &info) == ASSAY_OK)
      std::snprintf(said_, sizeof said_, "%.*s", static_cast<int>(info.message.size),
                    info.message.data);
    assay_error_free(error);
  }
  assay_status failed() const { return failed_; }  // of the first call that failed
  int failed_call() const { return failed_call_; }
  bool stuck() const { return stuck_; }  // a call failed twice
  const char* said() const { return said_; }

 private:
  assay_status failed_ = ASSAY_OK;
  int calls_ = 0, failed_call_ = 0;
  bool stuck_ = false;
  char said_[400] = "";
};

// What a life leaves: numbers that any disturbance would change.
using Trace = std::array<float, 3 * kBatch>;

class LivingHost : public SmallModel {
 protected:
  // From the model to what a predictor says after two steps, a save and a load.
  void train_and_serve(Host& then, assay_context* own, assay_model* model, Trace& trace) const {
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kBatch, .seed = 5, .learning_rate = 0.05};
    assay_trainer* trainer = nullptr;
    assay_report* report = nullptr;
    assay_model* served = nullptr;
    assay_predictor* predictor = nullptr;
    assay_slot* slot = nullptr;
    assay_tensor* out = nullptr;
    assay_eval_info eval{.struct_size = sizeof eval};
    then(assay_trainer_create, model, &options, text(kSgd), &trainer);
    then(assay_trainer_step, trainer, batch.tensors(), size_t{2}, nullptr);
    then(assay_trainer_set_metadata, trainer, text("a note of the host"), text("x"));
    then(assay_checkpoint_save, trainer, text(model_file), 0u);
    then(assay_trainer_step, trainer, batch.tensors(), size_t{2}, nullptr);
    then(assay_trainer_eval, trainer, batch.tensors(), size_t{2}, 0u, &eval);
    then(assay_checkpoint_load, trainer, text(model_file), 0u, &report);
    then(assay_trainer_step, trainer, batch.tensors(), size_t{2}, nullptr);
    then(assay_checkpoint_save, trainer, text(model_file), 0u);
    then(assay_model_save_weights, model, text(weights), text("safetensors"), text(""));
    then(assay_model_open, own, text(model_file), &served);
    then(assay_model_load_weights, served, text(weights), text("safetensors"), text(""), 0u,
         nullptr);
    then(assay_predictor_create, served, text(R"({"max_batch": 8})"), &predictor);
    then(assay_slot_create, predictor, &slot);
    then(assay_predictor_run, predictor, slot, batch.tensors(), size_t{1}, &out, size_t{1});
    then(assay_tensor_read, out, static_cast<void*>(trace.data()), sizeof trace);
    assay_tensor_release(out);
    assay_slot_free(slot);
    assay_predictor_free(predictor);
    assay_model_free(served);
    assay_report_free(report);
    assay_trainer_free(trainer);
  }

  TemporaryFolder folder;
  const std::string model_file = folder.at("life.ckpt"), weights = folder.at("life.safetensors");
};

}  // namespace assay::test
