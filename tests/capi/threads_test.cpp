// Calls that meet: exclusive use, sharing, interruption.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

// One thread per kernel: the threads here are those of the callers, and ThreadSanitizer does not
// understand the OpenMP library's own.
Owned<assay_context> make_serial_context() {
  const assay_context_options options{.struct_size = sizeof options, .n_threads = 1};
  return make<assay_context>(assay_context_create, &options, nullptr, nullptr, size_t{0});
}

// A model whose steps take long enough to be met.
class ThreadsTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 8;

  ThreadsTest() {
    const int64_t image_shape[] = {kRows, 32, 32, 3};
    image = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, image_shape, 4);
    label = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_I32, image_shape, 1);
    model = make<assay_model>(assay_model_named, context.get(), text("resnet18"),
                              text(R"({"width": 32})"));
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kRows, .learning_rate = 0.01};
    trainer = make<assay_trainer>(assay_trainer_create, model.get(), &options,
                                  text(R"({"optimizer": {"name": "sgd", "momentum": 0.9}})"));
    batch[0] = image.get(), batch[1] = label.get();
    step();  // compiles
  }
  Outcome step(assay_step_info* info = nullptr) {
    return call(assay_trainer_step, trainer.get(), static_cast<const assay_tensor* const*>(batch),
                size_t{2}, info);
  }
  // Steps on another thread until `meanwhile` returns true, or half a minute has gone by. Returns
  // the statuses of the steps.
  template <class Meanwhile>
  std::vector<assay_status> steps_until(Meanwhile&& meanwhile) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    std::atomic<bool> done{false};
    std::vector<assay_status> statuses;
    std::thread worker([&] {
      while (!done) statuses.push_back(step().status);
    });
    while (!done) done = meanwhile() || std::chrono::steady_clock::now() > deadline;
    worker.join();
    return statuses;
  }

  Owned<assay_context> context = make_serial_context();
  Owned<assay_tensor> image, label;
  Owned<assay_model> model;
  Owned<assay_trainer> trainer;
  const assay_tensor* batch[2];
};

TEST_F(ThreadsTest, AStepKeepsOthersOut) {
  const auto weight =
      make<assay_tensor>(assay_model_tensor, model.get(), text("fc.weight"), ASSAY_KIND_VALUE);
  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, weight.get(), &info);
  std::vector<std::byte> copy(info.bytes);
  bool read_busy = false, step_busy = false, predictor_busy = false;
  const auto statuses = steps_until([&] {
    const auto is_busy = [](const Outcome& outcome) {
      EXPECT_TRUE(outcome.status == ASSAY_OK || outcome.status == ASSAY_E_BUSY) << outcome.message;
      if (outcome.status == ASSAY_E_BUSY) {
        EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});
      }
      return outcome.status == ASSAY_E_BUSY;
    };
    read_busy |= is_busy(
        call(assay_tensor_read, weight.get(), static_cast<void*>(copy.data()), copy.size()));
    if (read_busy) step_busy |= is_busy(step());
    assay_predictor* predictor = nullptr;
    if (step_busy) {
      predictor_busy |= is_busy(call(assay_predictor_create, model.get(), text(""), &predictor));
    }
    assay_predictor_free(predictor);
    return predictor_busy;
  });
  EXPECT_TRUE(read_busy && step_busy && predictor_busy);
  for (const assay_status status : statuses) {
    EXPECT_TRUE(status == ASSAY_OK || status == ASSAY_E_BUSY);
  }
  ok(assay_tensor_read, weight.get(), static_cast<void*>(copy.data()), copy.size());
  EXPECT_EQ(step().status, ASSAY_OK);
}

TEST_F(ThreadsTest, AnInterruptStopsAStepAndNothingIsLost) {
  assay_step_info before{.struct_size = sizeof before}, after{.struct_size = sizeof after};
  EXPECT_EQ(step(&before).status, ASSAY_OK);
  int completed = 0, cancelled = 0;
  for (int attempt = 0; attempt < 20 && cancelled == 0; ++attempt) {
    Outcome outcome;
    std::atomic<bool> done{false};
    std::thread worker([&] {
      outcome = step();
      done = true;
    });
    while (!done) {
      std::this_thread::sleep_for(1ms);
      EXPECT_EQ(assay_context_interrupt(context.get()), ASSAY_OK);
    }
    worker.join();
    cancelled += outcome.status == ASSAY_E_CANCELLED;
    completed += outcome.status == ASSAY_OK;
    EXPECT_TRUE(outcome.status == ASSAY_OK || outcome.status == ASSAY_E_CANCELLED);
  }
  EXPECT_EQ(cancelled, 1);
  assay_context_interrupt(context.get());  // nothing runs: nothing happens
  EXPECT_EQ(step(&after).status, ASSAY_OK);
  EXPECT_EQ(after.step, before.step + completed + 1);
}

TEST_F(ThreadsTest, ACancelledStepChangesNoBit) {
  const auto read = [&](std::string_view name, int32_t kind) {
    const auto tensor = make<assay_tensor>(assay_model_tensor, model.get(), text(name), kind);
    assay_tensor_info info{.struct_size = sizeof info};
    ok(assay_tensor_get_info, tensor.get(), &info);
    std::vector<std::byte> copy(info.bytes);
    ok(assay_tensor_read, tensor.get(), static_cast<void*>(copy.data()), copy.size());
    return copy;
  };
  const auto state = [&] {
    return std::vector{read("fc.weight", ASSAY_KIND_VALUE), read("conv1.weight", ASSAY_KIND_VALUE),
                       read("fc.weight", ASSAY_KIND_MOMENT1),
                       read("bn1.running_mean", ASSAY_KIND_STATISTIC)};
  };
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto before = state();
    Outcome outcome;
    std::atomic<bool> done{false};
    std::thread worker([&] {
      outcome = step();
      done = true;
    });
    while (!done) {
      std::this_thread::sleep_for(2ms);
      assay_context_interrupt(context.get());
    }
    worker.join();
    if (outcome.status != ASSAY_E_CANCELLED) continue;
    EXPECT_EQ(state(), before);
    return;
  }
  FAIL() << "no step was cancelled";
}

// Two trainers step side by side; the interruption of one is none of the other.
TEST_F(ThreadsTest, AnInterruptOfATrainerStopsNoOther) {
  const auto other_model =
      make<assay_model>(assay_model_named, context.get(), text("cnn"),
                        text(R"({"image": [32, 32, 3], "conv": [4], "hidden": [0]})"));
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kRows, .learning_rate = 0.01};
  const auto other = make<assay_trainer>(assay_trainer_create, other_model.get(), &options,
                                         text(R"({"optimizer": {"name": "sgd"}})"));
  std::atomic<bool> stopped{false};
  std::atomic<int> others{0};
  std::thread beside([&] {
    while (!stopped) {
      EXPECT_EQ(call(assay_trainer_step, other.get(),
                     static_cast<const assay_tensor* const*>(batch), size_t{2}, nullptr)
                    .status,
                ASSAY_OK);
      ++others;
    }
  });
  std::thread interrupter([&] {
    while (!stopped) {
      EXPECT_EQ(assay_trainer_interrupt(trainer.get()), ASSAY_OK);
      std::this_thread::sleep_for(100us);
    }
  });
  int cancelled = 0;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while ((cancelled < 3 || others < 3) && std::chrono::steady_clock::now() < deadline)
    cancelled += step().status == ASSAY_E_CANCELLED;
  stopped = true;
  beside.join(), interrupter.join();
  EXPECT_GE(cancelled, 3);
  EXPECT_GE(others, 3);
  EXPECT_EQ(step().status, ASSAY_OK);
}

TEST_F(ThreadsTest, AnInterruptOfASlotStopsItsPrediction) {
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  const auto other = make<assay_slot>(assay_slot_create, predictor.get());
  const auto predict = [&](assay_slot* with) {
    return call(assay_predictor_run, predictor.get(), with,
                static_cast<const assay_tensor* const*>(batch), size_t{1}, nullptr, size_t{0})
        .status;
  };
  EXPECT_EQ(predict(slot.get()), ASSAY_OK);
  std::atomic<bool> stopped{false};
  std::thread interrupter([&] {
    while (!stopped) {
      EXPECT_EQ(assay_slot_interrupt(slot.get()), ASSAY_OK);
      std::this_thread::sleep_for(100us);
    }
  });
  bool cancelled = false;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!cancelled && std::chrono::steady_clock::now() < deadline) {
    cancelled = predict(slot.get()) == ASSAY_E_CANCELLED;
    EXPECT_EQ(predict(other.get()), ASSAY_OK);
  }
  stopped = true;
  interrupter.join();
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(predict(slot.get()), ASSAY_OK);
}

class SharedPredictorTest : public SmallModel {
 protected:
  SharedPredictorTest() { context = make_serial_context(); }
};

TEST_F(SharedPredictorTest, ManyCallersGetTheNumbersOfOne) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto predict = [&](assay_slot* slot, const SmallBatch& with) {
    assay_tensor* out = nullptr;
    ok(assay_predictor_run, predictor.get(), slot, with.tensors(), size_t{1}, &out, size_t{1});
    std::vector<float> logits(3 * kBatch);
    ok(assay_tensor_read, out, static_cast<void*>(logits.data()), logits.size() * sizeof(float));
    assay_tensor_release(out);
    return logits;
  };
  constexpr int kCallers = 64;
  std::vector<std::unique_ptr<SmallBatch>> batches;
  std::vector<std::vector<float>> expected;
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  for (unsigned i = 0; i < kCallers; ++i) {
    batches.push_back(std::make_unique<SmallBatch>(context.get(), i));
    expected.push_back(predict(slot.get(), *batches.back()));
  }
  EXPECT_NE(expected[0], expected[1]);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      const auto own = make<assay_slot>(assay_slot_create, predictor.get());
      for (int round = 0; round < 5; ++round)
        EXPECT_EQ(predict(own.get(), *batches[i]), expected[i]);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// A new predictor shares the model's weights, which assay_model_tensor parts from it.
TEST_F(SharedPredictorTest, WeightsAreReadWhileTheyArePartedFromAPredictor) {
  const TemporaryFolder folder;
  const std::string file = folder.at("weights.safetensors");
  for (int round = 0; round < 20; ++round) {
    const auto model = make_model();
    ok(assay_model_initialize, model.get(), uint64_t{1});
    auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
    std::thread saves([&] {
      ok(assay_model_save_weights, model.get(), text(file), text("safetensors"), text(""));
    });
    std::thread frees([&] { predictor.reset(); });
    const auto expected = bits(model.get(), "output.weight");
    saves.join(), frees.join();
    const auto read = make_model();
    ok(assay_model_load_weights, read.get(), text(file), text("safetensors"), text(""), 0u,
       nullptr);
    ASSERT_EQ(bits(read.get(), "output.weight"), expected);
  }
}

// ---- Samples of the host ----

// How many threads are in the host's function at once, and the most there were.
struct Visitors {
  std::atomic<int> now{0}, most{0};
  std::atomic<bool> slow{false};

  static int32_t sample(uintptr_t user, int64_t index, assay_give give, void* to) {
    auto& visitors = *reinterpret_cast<Visitors*>(user);
    const int here = ++visitors.now;
    for (int most = visitors.most;
         here > most && !visitors.most.compare_exchange_weak(most, here);) {
    }
    std::this_thread::sleep_for(visitors.slow ? 20ms : 1ms);
    give(to, text("number"), ASSAY_I64, &index, 1);
    --visitors.now;
    return 0;
  }
  Owned<assay_loader> make_loader(const assay_context* context, std::string_view config) {
    assay_samples samples{.struct_size = sizeof samples};
    samples.user = reinterpret_cast<uintptr_t>(this);
    samples.count = 64;
    samples.sample = sample;
    return make<assay_loader>(assay_loader_from_samples, context, &samples,
                              text(R"({"arrays": [{"name": "number", "dtype": "i64"}]})"),
                              text(config), text(""));
  }
};

// The sum of the numbers in all batches; -1 if a call failed with something else than `allowed`.
int64_t sum_of(assay_loader* loader, assay_status allowed = ASSAY_OK) {
  int64_t sum = 0;
  while (true) {
    const assay_tensor* batch;
    int64_t numbers[4];
    const Outcome outcome = call(assay_loader_next, loader, &batch, size_t{1}, nullptr);
    if (outcome.status == ASSAY_E_END_OF_DATA) return sum;
    if (outcome.status == allowed && allowed != ASSAY_OK) continue;
    EXPECT_EQ(outcome.status, ASSAY_OK) << outcome.message;
    if (outcome.status != ASSAY_OK) return -1;
    ok(assay_tensor_read, batch, static_cast<void*>(numbers), sizeof numbers);
    for (const int64_t number : numbers) sum += number;
  }
}

constexpr int64_t kSumOfNumbers = 64 * 63 / 2;

TEST(HostSamplesThreads, WorkersAskAtOnceAndOneWorkerOneByOne) {
  const auto context = make_serial_context();
  Visitors many, one;
  EXPECT_EQ(
      sum_of(
          many.make_loader(context.get(), R"({"batch_size": 4, "epochs": 1, "workers": 4})").get()),
      kSumOfNumbers);
  EXPECT_GT(many.most, 1);
  EXPECT_EQ(
      sum_of(
          one.make_loader(context.get(), R"({"batch_size": 4, "epochs": 1, "workers": 1})").get()),
      kSumOfNumbers);
  EXPECT_EQ(one.most, 1);
}

TEST(HostSamplesThreads, AnInterruptLosesNoSample) {
  const auto context = make_serial_context();
  for (const std::string workers : {"0", "3"}) {
    Visitors visitors;
    const auto loader = visitors.make_loader(
        context.get(), R"({"batch_size": 4, "epochs": 1, "workers": )" + workers + "}");
    std::atomic<bool> done{false};
    int64_t sum = 0;
    std::thread reader([&] {
      sum = sum_of(loader.get(), ASSAY_E_CANCELLED);
      done = true;
    });
    for (int i = 0; i < 10 && !done; ++i) {
      std::this_thread::sleep_for(10ms);
      assay_loader_interrupt(loader.get());
    }
    reader.join();
    EXPECT_EQ(sum, kSumOfNumbers);
  }
}

// The worker that is in the host's function is waited for.
TEST(HostSamplesThreads, AFreedLoaderAsksNoMore) {
  const auto context = make_serial_context();
  for (int round = 0; round < 5; ++round) {
    Visitors visitors;
    auto loader =
        visitors.make_loader(context.get(), R"({"batch_size": 4, "workers": 3, "prefetch": 8})");
    const assay_tensor* batch;
    ok(assay_loader_next, loader.get(), &batch, size_t{1}, nullptr);
    visitors.slow = true;
    loader.reset();
    EXPECT_EQ(visitors.now, 0);
  }
}

TEST_F(SharedPredictorTest, HandlesAreNotTiedToThreads) {
  auto model = make_model();
  auto trainer = make_trainer(model.get());
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { EXPECT_EQ(step(trainer.get(), batch).step, i + 1); }).join();
  }
  std::thread([&] { trainer.reset(), model.reset(), context.reset(); }).join();
}

}  // namespace
}  // namespace assay::test
