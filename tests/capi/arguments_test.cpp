// What errors say of arguments that cannot be used; every_function_test.cpp has NULL and structs,
// for every function.
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
  assay_report* report_out = nullptr;
  int64_t shape[1] = {1};
};

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
  const assay_context_options threads{.struct_size = sizeof threads, .n_threads = -3};
  parts(call(assay_context_create, &threads, nullptr, nullptr, size_t{0}, &other),
        "options.n_threads", "-3", "0 to 4096");
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

// A file operation that fails is about the argument that leads to the file.
TEST_F(ArgumentsTest, FilesAreThoseOfArguments) {
  const TemporaryFolder folder;
  const std::string absent = folder.at("no/x"), there = folder.at("x.ckpt");
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  ok(assay_checkpoint_save, trainer.get(), text(there), 0u);
  assay_loader* loader = nullptr;
  assay_detections* detections = nullptr;
  const auto argument = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
    EXPECT_THAT(outcome.message, testing::HasSubstr("/no"));
    return outcome.argument;
  };
  EXPECT_EQ(argument(call(assay_checkpoint_save, trainer.get(), text(absent), 0u)), "path");
  EXPECT_EQ(argument(call(assay_checkpoint_load, trainer.get(), text(absent), 0u, nullptr)),
            "path");
  EXPECT_EQ(argument(call(assay_checkpoint_diff, text(there), text(absent), &report_out)), "b");
  const std::string longer = there + "/no";  // begins with the other's name
  EXPECT_EQ(call(assay_checkpoint_diff, text(there), text(there + "-no"), &report_out).argument,
            "b");
  EXPECT_EQ(call(assay_checkpoint_diff, text(there), text(longer), &report_out).argument, "b");
  EXPECT_EQ(argument(call(assay_checkpoint_convert, text(there), text(absent), text("safetensors"),
                          text(""), 0, nullptr)),
            "to");
  EXPECT_EQ(argument(call(assay_loader_create, context.get(), text(absent), text("train"),
                          text(R"({"batch_size": 1})"), text(""), &loader)),
            "folder");
  EXPECT_EQ(argument(call(assay_detections_open, text(absent), &detections)), "path");
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

TEST_F(ArgumentsTest, NothingOfNothing) {
  EXPECT_EQ(assay_tensor_retain(nullptr), nullptr);
  EXPECT_EQ(assay_report_text(nullptr).size, 0u);
}

}  // namespace
}  // namespace assay::test
