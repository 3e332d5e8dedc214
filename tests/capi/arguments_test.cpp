// Every function of the headers with NULL where a pointer must be given.
#include "tests/capi/support.h"

namespace assay::test {
namespace {

class ArgumentsTest : public SmallModel {
 protected:
  // The call fails as a mistake of the caller, and names the argument.
  template <class... P, class... A>
  void refuses(std::string_view argument, assay_status (*f)(P...), A... args) {
    const Outcome outcome = call(f, args...);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID) << argument;
    EXPECT_EQ(outcome.argument, argument) << outcome.message;
    EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_CALLER});
  }
  assay_context* no_context = nullptr;
  assay_model* no_model = nullptr;
  assay_trainer* no_trainer = nullptr;
  assay_predictor* no_predictor = nullptr;
  assay_slot* no_slot = nullptr;
  assay_tensor* no_tensor = nullptr;
  assay_loader* no_loader = nullptr;
  assay_report* report_out = nullptr;
  int64_t shape[1] = {1};
  float memory[1] = {};
};

TEST_F(ArgumentsTest, NullSubjects) {
  assay_context* context_out = nullptr;
  assay_model* model_out = nullptr;
  assay_trainer* trainer_out = nullptr;
  assay_predictor* predictor_out = nullptr;
  assay_slot* slot_out = nullptr;
  assay_tensor* tensor_out = nullptr;
  assay_loader* loader_out = nullptr;
  assay_mem_stats stats{.struct_size = sizeof stats};
  assay_tensor_info info{.struct_size = sizeof info};
  assay_str value{};
  const assay_str empty = text("");
  size_t size = 0;
  EXPECT_EQ(assay_context_interrupt(nullptr), ASSAY_E_INVALID);
  EXPECT_EQ(assay_trainer_interrupt(nullptr), ASSAY_E_INVALID);
  EXPECT_EQ(assay_slot_interrupt(nullptr), ASSAY_E_INVALID);
  EXPECT_EQ(assay_loader_interrupt(nullptr), ASSAY_E_INVALID);
  refuses("c", assay_context_mem_stats, no_context, kCpu, &stats);
  refuses("c", assay_env_report, no_context, &report_out);
  refuses("c", assay_tensor_new, no_context, kCpu, ASSAY_F32, shape, 1, &tensor_out);
  refuses("c", assay_tensor_borrow, no_context, static_cast<void*>(memory), sizeof memory,
          ASSAY_F32, shape, 1, nullptr, 0, &tensor_out);
  refuses("t", assay_tensor_get_info, no_tensor, &info);
  refuses("t", assay_tensor_read, no_tensor, static_cast<void*>(memory), sizeof memory);
  refuses("t", assay_tensor_write, no_tensor, static_cast<const void*>(memory), sizeof memory);
  refuses("c", assay_model_named, no_context, text("cnn"), empty, &model_out);
  refuses("m", assay_model_report, no_model, &report_out);
  refuses("m", assay_model_check, no_model, kCpu, ASSAY_MODE_TRAIN, empty, &report_out);
  refuses("m", assay_model_initialize, no_model, 1u);
  refuses("m", assay_model_tensor, no_model, text("x"), ASSAY_KIND_VALUE, &tensor_out);
  refuses("m", assay_model_load_weights, no_model, text("x"), text("checkpoint"), empty, 0u,
          nullptr);
  refuses("m", assay_model_save_weights, no_model, text("x"), text("safetensors"), empty);
  refuses("m", assay_trainer_create, no_model, nullptr, empty, &trainer_out);
  refuses("t", assay_trainer_step, no_trainer, batch.tensors(), size_t{2}, nullptr);
  refuses("t", assay_trainer_backward, no_trainer, batch.tensors(), size_t{2}, nullptr);
  refuses("t", assay_trainer_apply, no_trainer, nullptr);
  refuses("t", assay_trainer_scalar, no_trainer, text("loss"), nullptr);
  refuses("t", assay_trainer_output, no_trainer, text("logits"), &tensor_out);
  refuses("t", assay_trainer_eval, no_trainer, batch.tensors(), size_t{2}, 0u, nullptr);
  refuses("t", assay_trainer_set, no_trainer, text("learning_rate"), 1.0);
  refuses("t", assay_trainer_set_metadata, no_trainer, text("k"), empty);
  refuses("t", assay_trainer_get_metadata, no_trainer, text("k"), &value);
  refuses("t", assay_trainer_report, no_trainer, &report_out);
  refuses("t", assay_trainer_profile, no_trainer, 1, &report_out);
  refuses("t", assay_checkpoint_save, no_trainer, text("x"), 0u);
  refuses("t", assay_checkpoint_load, no_trainer, text("x"), 0u, nullptr);
  refuses("m", assay_predictor_create, no_model, empty, &predictor_out);
  refuses("p", assay_predictor_report, no_predictor, &report_out);
  refuses("p", assay_slot_create, no_predictor, &slot_out);
  refuses("slot", assay_slot_prepare, no_slot, int64_t{1});
  refuses("p", assay_predictor_run, no_predictor, no_slot, batch.tensors(), size_t{1}, nullptr,
          size_t{0});
  refuses("slot", assay_slot_profile, no_slot, int64_t{1}, 1, &report_out);
  refuses("c", assay_dataset_convert, no_context, text("fashion_mnist"), empty, text("x"), empty,
          nullptr, 0, nullptr);
  refuses("c", assay_dataset_verify, no_context, text("x"), nullptr, 0);
  refuses("c", assay_dataset_export, no_context, text("x"), text("y"), empty, nullptr, 0);
  refuses("c", assay_loader_create, no_context, text("x"), text("train"), empty, empty,
          &loader_out);
  refuses("l", assay_loader_next, no_loader, nullptr, size_t{0}, nullptr);
  refuses("l", assay_loader_cursor, no_loader, nullptr, size_t{0}, &size);
  refuses("l", assay_loader_restore, no_loader, static_cast<const void*>(memory), size_t{1});
  refuses("l", assay_loader_seek, no_loader, int64_t{0});
  refuses("l", assay_loader_report, no_loader, &report_out);
  assay_detections* const no_detections = nullptr;
  refuses("d", assay_detections_add, no_detections, int64_t{1}, 1.0f, nullptr, nullptr, nullptr,
          size_t{0});
  refuses("d", assay_detections_size, no_detections, nullptr, nullptr);
  refuses("d", assay_detections_save, no_detections, text("x"));
  refuses("d", assay_detections_score, no_detections, text("x"), empty, &report_out);
  for (const void* out : {static_cast<void*>(context_out), static_cast<void*>(model_out),
                          static_cast<void*>(trainer_out), static_cast<void*>(tensor_out)}) {
    EXPECT_EQ(out, nullptr);
  }
}

TEST_F(ArgumentsTest, NullOutputs) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  const assay_str empty = text("");
  assay_report** no_report = nullptr;
  assay_tensor** no_tensors = nullptr;
  refuses("out", assay_context_create, nullptr, nullptr, nullptr, size_t{0}, nullptr);
  refuses("out", assay_device_enum, size_t{0}, nullptr);
  refuses("out", assay_context_mem_stats, context.get(), kCpu, nullptr);
  refuses("out", assay_env_report, context.get(), no_report);
  refuses("out", assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 1, no_tensors);
  refuses("out", assay_tensor_borrow, context.get(), static_cast<void*>(memory), sizeof memory,
          ASSAY_F32, shape, 1, nullptr, 0, no_tensors);
  refuses("out", assay_tensor_get_info, batch.tensors()[0], nullptr);
  refuses("dst", assay_tensor_read, batch.tensors()[1], nullptr, kBatch * sizeof(int32_t));
  refuses("out", assay_model_list, no_report);
  refuses("out", assay_model_named, context.get(), text("cnn"), empty, nullptr);
  refuses("out", assay_model_report, model.get(), no_report);
  refuses("out", assay_model_check, model.get(), kCpu, ASSAY_MODE_TRAIN, empty, no_report);
  refuses("out", assay_model_tensor, model.get(), text("x"), ASSAY_KIND_VALUE, no_tensors);
  refuses("out", assay_trainer_create, model.get(), nullptr, empty, nullptr);
  refuses("value", assay_trainer_get_metadata, trainer.get(), text("k"), nullptr);
  refuses("out", assay_trainer_report, trainer.get(), no_report);
  refuses("out", assay_trainer_profile, trainer.get(), 1, no_report);
  refuses("out", assay_predictor_create, model.get(), empty, nullptr);
  refuses("out", assay_predictor_report, predictor.get(), no_report);
  refuses("out", assay_slot_create, predictor.get(), nullptr);
  refuses("out", assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1},
          no_tensors, size_t{1});
  refuses("out", assay_slot_profile, slot.get(), int64_t{1}, 1, no_report);
  refuses("out", assay_checkpoint_inspect, text("x"), no_report);
  refuses("out", assay_checkpoint_verify, text("x"), no_report);
  refuses("out", assay_checkpoint_diff, text("x"), text("y"), no_report);
  refuses("out", assay_dataset_list, no_report);
  refuses("out", assay_dataset_report, text("x"), no_report);
  refuses("out", assay_loader_create, context.get(), text("x"), text("train"), empty, empty,
          nullptr);
}

// What a program can read from an error, besides the sentence for people.
TEST_F(ArgumentsTest, ErrorsSayWhatWasExpected) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* tensor = nullptr;
  assay_context* other = nullptr;
  const auto parts = [](const Outcome& outcome, std::string_view argument, std::string_view actual,
                        std::string_view expected) {
    EXPECT_EQ(outcome.argument, argument) << outcome.message;
    EXPECT_EQ(outcome.actual, actual) << outcome.message;
    EXPECT_THAT(outcome.expected, testing::HasSubstr(expected)) << outcome.message;
  };
  const assay_device_id nowhere{ASSAY_DEVICE_CPU, 7};
  const assay_device_id two[] = {kCpu, kCpu};
  assay_mem_stats stats{.struct_size = sizeof stats};
  assay_device_info device{.struct_size = sizeof device};
  parts(call(assay_context_mem_stats, context.get(), nowhere, &stats), "device",
        "{kind 0, index 7}", "{kind 0, index 0}");
  parts(call(assay_tensor_new, context.get(), nowhere, ASSAY_F32, shape, 1, &tensor), "device",
        "{kind 0, index 7}", "host memory");
  parts(call(assay_device_enum, size_t{99}, &device), "index", "99", "at most");
  parts(call(assay_context_create, nullptr, nullptr, two, size_t{2}, &other), "n_devices", "2",
        "0 or 1");
  parts(call(assay_context_create, nullptr, nullptr, &nowhere, size_t{1}, &other), "devices",
        "{kind 0, index 7}", "assay_device_enum");
  const int64_t negative[] = {-1};
  parts(call(assay_tensor_new, context.get(), kCpu, ASSAY_F32, negative, 1, &tensor), "shape", "-1",
        "0 or more");
  parts(call(assay_trainer_step, trainer.get(), batch.tensors(), size_t{1}, nullptr), "n",
        "1 tensor", "2 tensors: image and label");
  parts(call(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{2}, &tensor,
             size_t{1}),
        "n_in", "2", "1: image");
  parts(call(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{0}, &tensor,
             size_t{1}),
        "n_in", "0", "1: image");
  parts(call(assay_checkpoint_save, trainer.get(), text("x"), 64u), "parts", "64", "ASSAY_PART_*");
  parts(call(assay_checkpoint_save, trainer.get(), text(""), 0u), "path", "empty", "a path");
  parts(call(assay_trainer_set, trainer.get(), text("rate"), 1.0), "key", "rate", "learning_rate");
  parts(call(assay_dataset_report, text(""), &report_out), "folder", "empty", "a folder");
  parts(call(assay_dataset_convert, context.get(), text("mnist"), text(""), text("x"), text(""),
             nullptr, 0, nullptr),
        "name", "mnist", "fashion_mnist");
  parts(call(assay_dataset_convert, context.get(), text("imagenet"), text(""), text("x"), text(""),
             nullptr, 0, nullptr),
        "source", "empty", "imagenet");
}

TEST_F(ArgumentsTest, MetadataIsText) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  refuses("key", assay_trainer_set_metadata, trainer.get(), text("\xFF"), text("x"));
  refuses("key", assay_trainer_set_metadata, trainer.get(), text(""), text("x"));
  refuses("key", assay_trainer_set_metadata, trainer.get(), text("assay.mine"), text("x"));
  refuses("value", assay_trainer_set_metadata, trainer.get(), text("k"), text("\xFF"));
  ok(assay_trainer_set_metadata, trainer.get(), text("assay.cursor"), text("\xFF"));
  ok(assay_trainer_set_metadata, trainer.get(), text("epoch"), text("3"));
  assay_str value{};
  const Outcome outcome = call(assay_trainer_get_metadata, trainer.get(), text("epohc"), &value);
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.argument, "key");
  EXPECT_EQ(outcome.expected, "assay.cursor or epoch");
  EXPECT_EQ(outcome.hint, "did you mean \"epoch\"?");
}

// Freeing something makes room: the same call may succeed later.
TEST_F(ArgumentsTest, MemoryLimitsMayBeTriedAgain) {
  const assay_context_options options{.struct_size = sizeof options, .mem_limit = 4096};
  const auto small =
      make<assay_context>(assay_context_create, &options, nullptr, nullptr, size_t{0});
  const int64_t elements[] = {800};
  auto first = make<assay_tensor>(assay_tensor_new, small.get(), kCpu, ASSAY_F32, elements, 1);
  assay_tensor* second = nullptr;
  const Outcome outcome =
      call(assay_tensor_new, small.get(), kCpu, ASSAY_F32, elements, 1, &second);
  EXPECT_EQ(outcome.status, ASSAY_E_OOM_HOST);
  EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});
  EXPECT_EQ(outcome.argument, "mem_limit");
  EXPECT_EQ(outcome.actual, "4096");
  EXPECT_EQ(outcome.expected, "at least 6400");
  first.reset();
  make<assay_tensor>(assay_tensor_new, small.get(), kCpu, ASSAY_F32, elements, 1);
}

TEST_F(ArgumentsTest, WrongStructsDoNotCostAStep) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  assay_step_info info{.struct_size = 2};
  refuses("info", assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, &info);
  refuses("info", assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, &info);
  refuses("info", assay_trainer_apply, trainer.get(), &info);
  assay_eval_info eval{.struct_size = 2};
  refuses("info", assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &eval);
  EXPECT_EQ(step(trainer.get(), batch).step, 1);
}

TEST_F(ArgumentsTest, TextsWithSizeButWithoutData) {
  const assay_str broken{nullptr, 5};
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  refuses("path", assay_checkpoint_save, trainer.get(), broken, 0u);
  refuses("path", assay_checkpoint_inspect, broken, &report_out);
  refuses("key", assay_trainer_set, trainer.get(), broken, 1.0);
  refuses("folder", assay_dataset_report, broken, &report_out);
}

TEST_F(ArgumentsTest, FreesTakeNull) {
  assay_context_free(nullptr);
  assay_model_free(nullptr);
  assay_trainer_free(nullptr);
  assay_predictor_free(nullptr);
  assay_slot_free(nullptr);
  assay_tensor_release(nullptr);
  assay_loader_free(nullptr);
  assay_report_free(nullptr);
  assay_error_free(nullptr);
  EXPECT_EQ(assay_tensor_retain(nullptr), nullptr);
  EXPECT_EQ(assay_report_text(nullptr).size, 0u);
}

}  // namespace
}  // namespace assay::test
