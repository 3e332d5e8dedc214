// Several devices through the C interface: ranks in threads train to the weights of one trainer
// that plays them, and what goes wrong is said.
#include <assay/assay_comm.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;
using Comm = std::unique_ptr<assay_comm, decltype(&assay_comm_free)>;
constexpr int64_t kMinute = int64_t{60} * 1000 * 1000 * 1000;

assay_comm_id new_id(std::string_view kind = "local") {
  assay_comm_id id{};
  ok(assay_comm_new_id, text(kind), &id);
  return id;
}

void on_ranks(int world, const std::function<void(int rank, assay_context*, assay_comm*)>& body) {
  const assay_comm_id id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      // GPUs are of one rank each; the CPU is all ranks'.
      const auto context = make_context({device_under_test.kind, on_cpu() ? 0 : rank});
      assay_comm* comm = nullptr;
      ok(assay_comm_create, context.get(), &id, rank, world, kMinute, &comm);
      const Comm owned(comm, assay_comm_free);
      body(rank, context.get(), comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr std::string_view kTwoDevices =
    R"({"optimizer": {"name": "adamw", "learning_rate": 0.01}, "emulated_devices": 2,
        "accumulate": 2, "seed": 5})";

Owned<assay_trainer> make_trainer(assay_model* model, assay_comm* comm,
                                  std::string_view config = kTwoDevices) {
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .comm = comm};
  return make<assay_trainer>(assay_trainer_create, model, &options, text(config));
}
Owned<assay_model> small_model(assay_context* context) {
  return make<assay_model>(assay_model_named, context, text("cnn"), text(kSmallCnn));
}

TEST(Comm, RanksTrainAsOneTrainerThatPlaysThem) {
  const TemporaryFolder folder;
  constexpr int kBatches = 8;
  const auto train = [&](assay_context* context, assay_comm* comm, int first, int every,
                         const std::string& name) {
    const auto model = small_model(context);
    const auto trainer = make_trainer(model.get(), comm);
    for (int i = first; i < kBatches; i += every) {
      const SmallBatch batch(context, static_cast<unsigned>(i));
      ok(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
    }
    ok(assay_checkpoint_save, trainer.get(), text(folder.at(name)), 0u);
  };
  on_ranks(2, [&](int rank, assay_context* context, assay_comm* comm) {
    train(context, comm, rank, 2, "together");
  });
  train(make_context().get(), nullptr, 0, 1, "alone");
  const auto difference =
      report(assay_checkpoint_diff, text(folder.at("together")), text(folder.at("alone")));
  EXPECT_TRUE(at(difference, "identical").bool_value()) << difference.ShortDebugString();
}

TEST(Comm, ReportsSayWhatWasSent) {
  on_ranks(2, [](int, assay_context* context, assay_comm* comm) {
    const auto model = small_model(context);
    const auto trainer = make_trainer(model.get(), comm);
    const SmallBatch batch(context);
    for (int step = 0; step < 3; ++step)
      ok(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
    const auto sent =
        at(report(assay_trainer_report, trainer.get()), "communication").struct_value();
    const auto number = [&](const char* key) { return at(sent, key).number_value(); };
    EXPECT_EQ(number("ranks"), 2);
    EXPECT_EQ(number("updates"), 3);
    const double parameters =
        at(report(assay_model_report, model.get()), "parameters").number_value();
    EXPECT_GE(number("bytes"), 3 * 4 * parameters);
    EXPECT_LT(number("bytes"), 3 * (4 * parameters + 64 * 20));  // each begins at a line of memory
    EXPECT_EQ(sent.fields().contains("seconds"), on_cpu());
    EXPECT_EQ(sent.fields().contains("waited"), on_cpu());
    if (!on_cpu()) return;
    EXPECT_GT(number("seconds"), 0);
    EXPECT_GE(number("waited"), 0);
  });
  const auto context = make_context();
  const auto model = small_model(context.get());
  const auto alone = make_trainer(model.get(), nullptr);
  EXPECT_FALSE(report(assay_trainer_report, alone.get()).fields().contains("communication"));
}

TEST(Comm, TextsOfAllRanks) {
  on_ranks(3, [](int rank, assay_context*, assay_comm* comm) {
    const auto texts =
        at(report(assay_comm_gather, comm, text("r\u00e4nk " + std::to_string(rank))), "texts")
            .list_value();
    ASSERT_EQ(texts.values_size(), 3);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(texts.values(i).string_value(), "r\u00e4nk " + std::to_string(i));
  });
}

// A rank that waits in vain for the other: interrupting its context ends the wait, as aborting
// does.
TEST(Comm, WaitsEndWhenToldTo) {
  for (const bool interrupts : {false, true}) {
    std::atomic<bool> over{false};
    on_ranks(2, [&](int rank, assay_context* context, assay_comm* comm) {
      const auto model = small_model(context);
      const auto trainer = make_trainer(model.get(), comm);
      const SmallBatch batch(context);
      if (rank == 1) {
        while (!over) std::this_thread::yield();
        return;
      }
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (interrupts) {
          EXPECT_EQ(assay_context_interrupt(context), ASSAY_OK);
        } else {
          ok(assay_comm_abort, comm);
        }
      });
      const Outcome outcome =
          call(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
      // Before it waits, an interruption cancels it.
      EXPECT_TRUE((interrupts && outcome.status == ASSAY_E_CANCELLED) ||
                  (outcome.status == ASSAY_E_COMM &&
                   outcome.message.find("rank 0 has aborted it") != std::string::npos))
          << outcome.message;
      other.join();
      over = true;
    });
  }
}

TEST(Comm, WhatCannotBeIsRefused) {
  const auto context = make_context();
  assay_comm_id id = new_id();
  assay_comm* comm = nullptr;
  const auto refused = [&](assay_status status, const assay_comm_id* of, int rank, int world,
                           int64_t timeout) {
    return fails(status, assay_comm_create, context.get(), of, rank, world, timeout, &comm);
  };
  EXPECT_THAT(fails(ASSAY_E_NOT_FOUND, assay_comm_new_id, text("tcp"), &id), HasSubstr("local"));
  EXPECT_THAT(refused(ASSAY_E_INVALID, &id, 2, 2, kMinute), HasSubstr("rank"));
  EXPECT_THAT(refused(ASSAY_E_INVALID, &id, -1, 2, kMinute), HasSubstr("rank"));
  EXPECT_THAT(refused(ASSAY_E_INVALID, &id, 0, 0, kMinute), HasSubstr("world"));
  EXPECT_THAT(refused(ASSAY_E_INVALID, &id, 0, 2, 0), HasSubstr("timeout_ns"));
  EXPECT_THAT(refused(ASSAY_E_INVALID, nullptr, 0, 2, kMinute), HasSubstr("id"));
  const assay_comm_id empty{};
  EXPECT_THAT(refused(ASSAY_E_INVALID, &empty, 0, 2, kMinute), HasSubstr("assay_comm_new_id"));
  EXPECT_THAT(refused(ASSAY_E_TIMEOUT, &id, 0, 2, 1000 * 1000),
              HasSubstr("rank 1 has not come within 0.001 s"));
  EXPECT_EQ(comm, nullptr);
  const assay_comm_id alone = new_id();
  ok(assay_comm_create, context.get(), &alone, 0, 1, kMinute, &comm);
  const Comm owned(comm, assay_comm_free);
  const auto model = small_model(context.get());
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .comm = comm};
  assay_trainer* trainer = nullptr;
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_trainer_create, model.get(), &options, text(kTwoDevices),
                    &trainer),
              HasSubstr("the number of ranks"));
  assay_comm_free(nullptr);
}

}  // namespace
}  // namespace assay::test
