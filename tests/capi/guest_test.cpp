// The library as a guest in the process: what it must leave as it was.
#include <signal.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

class GuestTest : public SmallModel {
 protected:
  void whole_life() {
    const auto own = make_context();
    const auto model = make_model();
    const auto trainer = make_trainer(model.get());
    step(trainer.get(), batch);
    const TemporaryFolder folder;
    ok(assay_checkpoint_save, trainer.get(), text(folder.at("a.ckpt")), 0u);
    ok(assay_checkpoint_load, trainer.get(), text(folder.at("a.ckpt")), 0u, nullptr);
    assay_trainer* second = nullptr;
    fails(ASSAY_E_INVALID, assay_trainer_create, model.get(), nullptr, text("{bad"), &second);
    fails(ASSAY_E_NOT_FOUND, assay_checkpoint_load, trainer.get(), text(folder.at("b")), 0u,
          nullptr);
    report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_PREDICT,
           text(R"({"max_batch": 2})"));
  }
};

TEST_F(GuestTest, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  whole_life();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(GuestTest, LeavesSignalsEnvironmentLocaleAndRounding) {
  std::vector<struct sigaction> before(32), after(32);
  for (int number = 1; number < 32; ++number) {
    sigaction(number, nullptr, &before[static_cast<size_t>(number)]);
  }
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  const int rounding = std::fegetround();

  whole_life();
  for (int number = 1; number < 32; ++number) {
    const auto i = static_cast<size_t>(number);
    sigaction(number, nullptr, &after[i]);
    EXPECT_EQ(before[i].sa_handler, after[i].sa_handler) << "signal " << number;
  }
  std::vector<std::string> variables_after;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables_after.push_back(*variable);
  }
  EXPECT_EQ(variables, variables_after);
  EXPECT_EQ(std::setlocale(LC_ALL, nullptr), locale);
  EXPECT_EQ(std::fegetround(), rounding);
}

TEST_F(GuestTest, GivesBackAllMemory) {
  assay_mem_stats stats{.struct_size = sizeof stats};
  {
    const auto model = make_model();
    const auto trainer = make_trainer(model.get());
    step(trainer.get(), batch);
    const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    ok(assay_slot_prepare, slot.get(), int64_t{3});
    ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
    EXPECT_GT(stats.in_use, 0u);
  }
  ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
  EXPECT_EQ(stats.in_use, 0u);
  EXPECT_EQ(stats.blocks, 0u);
  EXPECT_GT(stats.peak, 0u);
}

// A limit that the training does not fit is an error at the call that meets it, and nothing else.
TEST_F(GuestTest, MemoryLimitsFailCleanly) {
  const auto model = make_model();
  const std::string config = R"({"batch_size": 6, "optimizer": {"name": "sgd",
      "momentum": 0.9, "learning_rate": 0.1}})";
  const auto check =
      report(assay_model_check, model.get(), device_under_test, ASSAY_MODE_TRAIN, text(config));
  const auto needed = static_cast<uint64_t>(number(at(check, "memory").struct_value(), "total"));
  for (const uint64_t limit : {needed / 100, needed / 10, needed / 2, needed - 1, needed}) {
    const assay_context_options options{.struct_size = sizeof options, .mem_limit = limit};
    const auto small =
        make<assay_context>(assay_context_create, &options, nullptr, &device_under_test, size_t{1});
    const auto limited =
        make<assay_model>(assay_model_named, small.get(), text("cnn"), text(kSmallCnn));
    assay_trainer* trainer = nullptr;
    Outcome outcome = call(assay_trainer_create, limited.get(), nullptr, text(config), &trainer);
    if (outcome.status == ASSAY_OK) {
      outcome = call(assay_trainer_step, trainer, batch.tensors(), size_t{2}, nullptr);
    }
    EXPECT_EQ(outcome.status, limit == needed ? ASSAY_OK
                              : on_cpu()      ? ASSAY_E_OOM_HOST
                                              : ASSAY_E_OOM_DEVICE)
        << outcome.message;
    assay_trainer_free(trainer);
  }
}

}  // namespace
}  // namespace assay::test
