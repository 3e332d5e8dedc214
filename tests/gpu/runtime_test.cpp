// The CUDA backend on a runtime that runs on the processor (emulation/runtime.h): what it says of
// machines that cannot be used, what it allocates and waits for, and what becomes of failures at
// every point of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "sdk/backend/cuda/backend.h"
#include "sdk/backend/cuda/check.h"
#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/backend/cuda/tuning.h"
#include "tests/gpu/device_hooks.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/harness/error_of.h"
#include "tests/harness/run_node.h"
#include "tests/train/training_setup.h"

namespace assay::cuda {
namespace {

using emulation::Counts;
using emulation::counts;
using emulation::machine;
using test::error_of;
using testing::HasSubstr;
using train::HostTensor;
using train::StepInfo;
using train::Trainer;
using train::test::Batch;
using train::test::config_of;
using train::test::kSgd;
using train::test::kSmallCnn;
using train::test::persistent_bytes;

class EmulatedRuntime : public testing::Test {
 protected:
  void TearDown() override { machine() = {}; }
};

std::shared_ptr<train::ModelInstance> new_instance() {
  return std::make_shared<train::ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model("cnn", kSmallCnn)),
      std::shared_ptr<Backend>(make_device_backend({})));
}

// ---- Machines that cannot be used ----

TEST_F(EmulatedRuntime, SaysWhyThereIsNoDevice) {
  std::string reason;
  machine().driver = 0;
  EXPECT_TRUE(find_devices(reason).empty());
  EXPECT_THAT(reason, HasSubstr("no NVIDIA driver"));
  machine().driver = 12080;
  EXPECT_TRUE(find_devices(reason).empty());
  EXPECT_THAT(reason, HasSubstr("too old: it supports CUDA 12.8, this build needs 13.0"));
  machine() = {.devices = 0};
  EXPECT_TRUE(find_devices(reason).empty());
  EXPECT_THAT(reason, HasSubstr("finds no CUDA device"));
}

TEST_F(EmulatedRuntime, SaysWhyADeviceCannotBeUsed) {
  std::string reason;
  machine().capability = 75;
  EXPECT_THAT(find_devices(reason).at(0).unavailable_reason,
              HasSubstr("compute capability 7.5, at least 8.0"));
  machine() = {.cudnn = 80907};
  EXPECT_THAT(find_devices(reason).at(0).unavailable_reason,
              HasSubstr("cuDNN 8.9 was loaded, this build needs 9.x"));
  machine() = {};
  EXPECT_EQ(find_devices(reason).at(0).unavailable_reason, "");
  EXPECT_EQ(find_devices(reason).at(0).info.name, "NVIDIA H200");
}

// cuDNN opens its parts when it is started; what is wrong with them shows only then.
TEST_F(EmulatedRuntime, SaysWhatIsWrongWithThePartsOfCudnn) {
  const auto starting = [](cudnnStatus_t status) {
    return error_of([&] { check(status, "starting cuDNN"); });
  };
  const Error mixed = starting(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
  EXPECT_EQ(mixed.code(), Code::kUnsupported);
  EXPECT_EQ(mixed.detail().domain, Domain::kCudnn);
  EXPECT_EQ(mixed.detail().native_code, 1002);
  EXPECT_THAT(mixed.what(), HasSubstr("starting cuDNN: the parts of cuDNN found here are of "
                                      "different versions"));
  EXPECT_THAT(mixed.detail().hint, HasSubstr("all of one cuDNN release"));
  const Error missing = starting(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
  EXPECT_EQ(missing.code(), Code::kUnsupported);
  EXPECT_THAT(missing.what(), HasSubstr("a part of cuDNN is missing"));
  EXPECT_EQ(starting(CUDNN_STATUS_EXECUTION_FAILED).code(), Code::kDevice);
}

// One that does not answer keeps nobody from the others.
TEST_F(EmulatedRuntime, ListsDevicesThatDoNotSayWhatTheyAre) {
  std::string reason;
  machine().devices = 2;
  machine().lost_device = 0;
  const std::vector<Device> devices = find_devices(reason);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_THAT(devices[0].unavailable_reason, HasSubstr("asking for CUDA device 0"));
  EXPECT_EQ(devices[1].unavailable_reason, "");
}

// ---- Memory ----

TEST_F(EmulatedRuntime, OutOfMemorySaysWhatWasAskedForAndWhatIsHeld) {
  machine().memory = size_t{1} << 20;
  const auto backend = make_device_backend({});
  const auto held = backend->allocate(5000);
  const Error device = error_of([&] { backend->allocate(3 << 20); });
  EXPECT_EQ(device.code(), Code::kOutOfDeviceMemory);
  const size_t in_use = 5000 + kernels::kArrivals * sizeof(uint32_t);
  EXPECT_THAT(device.what(),
              HasSubstr(cat("no block of 3145728 bytes: 1048576 of 1048576 bytes are ",
                            "free, this context holds ", in_use, ";")));
  const Error host = error_of([&] { backend->allocate_host(3 << 20); });
  EXPECT_EQ(host.code(), Code::kOutOfHostMemory);
  EXPECT_EQ(host.detail().native_code, cudaErrorMemoryAllocation);
  EXPECT_THAT(host.what(), HasSubstr("no 3145728 bytes of pinned memory"));
  EXPECT_NE(backend->allocate(1024), nullptr);
}

// ---- Steps ----

Counts difference(const Counts& before) {
  const Counts now = counts();
  return {now.allocations - before.allocations, now.synchronizations - before.synchronizations,
          now.graph_launches - before.graph_launches, now.enqueued - before.enqueued};
}

// The first step runs launch by launch, the second is captured; those after it are one graph.
TEST_F(EmulatedRuntime, AStepAllocatesNothingAndWaitsOnce) {
  Trainer trainer(new_instance(), config_of(kSgd));
  for (uint64_t i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());
  const Batch first(3), second(4), third(5);
  trainer.prefetch(first.tensors());
  trainer.prefetch(second.tensors());
  trainer.step({});
  const std::vector<HostTensor> next = third.tensors();
  const Counts before = counts();
  trainer.prefetch(next);
  trainer.step({});
  const Counts step = difference(before);
  EXPECT_EQ(step.allocations, 0);
  EXPECT_EQ(step.graph_launches, 1);
  // For the results, and for a transfer of two steps ago that is over already.
  EXPECT_EQ(step.synchronizations, 2);
}

TEST_F(EmulatedRuntime, PrefetchedBatchesAreTrainedInOrderWithTheSameBits) {
  test::under_every_schedule([] {
    for (const char* config :
         {R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "seed": 3})",
          R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "accumulate": 2})",
          R"({"optimizer": {"name": "sgd", "learning_rate": 0.05}, "mixup_alpha": 0.3})"}) {
      Trainer plain(new_instance(), config_of(config)), ahead(new_instance(), config_of(config));
      std::vector<double> expected, got;
      for (uint64_t i = 0; i < 6; ++i) expected.push_back(plain.step(Batch(i).tensors()).loss);
      ahead.prefetch(Batch(0).tensors());  // gone at once: it was taken over
      for (uint64_t i = 0; i < 6; ++i) {
        const Batch next(i + 1);
        if (i < 5) ahead.prefetch(next.tensors());
        got.push_back(ahead.step({}).loss);
      }
      EXPECT_EQ(got, expected) << config;
      EXPECT_TRUE(persistent_bytes(ahead.instance()) == persistent_bytes(plain.instance()))
          << config;
    }
  });
}

// ---- Failures ----

// Whatever work of a step the device fails at: an error with the vendor's number, then kPoisoned
// from everything on the device, and a new backend works and gives the same bits as ever.
TEST_F(EmulatedRuntime, AFailureAnywhereInAStepPoisonsTheContextOnly) {
  const auto losses = [] {
    Trainer trainer(new_instance(), config_of(kSgd));
    std::vector<double> all;
    for (uint64_t i = 0; i < 3; ++i) all.push_back(trainer.step(Batch(i).tensors()).loss);
    return all;
  };
  const std::vector<double> expected = losses();
  for (uint64_t fails = 0; fails < 3; ++fails) {  // launch by launch, captured, replayed
    test::under_every_schedule([&] {
      {
        Trainer trainer(new_instance(), config_of(kSgd));
        for (uint64_t i = 0; i < fails; ++i) trainer.step(Batch(i).tensors());
        emulation::fail_next_work(cudaErrorIllegalAddress);
        const Error first = error_of([&] { trainer.step(Batch(fails).tensors()); });
        EXPECT_EQ(first.code(), Code::kDevice);
        EXPECT_EQ(first.detail().domain, Domain::kCuda);
        EXPECT_EQ(first.detail().native_code, cudaErrorIllegalAddress);
        EXPECT_EQ(error_of([&] { trainer.step(Batch(fails).tensors()); }).code(), Code::kPoisoned);
        EXPECT_EQ(error_of([&] { trainer.instance().backend()->allocate(16); }).code(),
                  Code::kPoisoned);
        EXPECT_EQ(error_of([&] { trainer.instance().backend()->info(); }).code(), Code::kPoisoned);
      }
      EXPECT_EQ(losses(), expected);
    });
  }
}

TEST_F(EmulatedRuntime, AContextFromBeforeAResetStaysPoisoned) {
  const auto old = make_device_backend({});
  auto memory = old->allocate(64);
  emulation::fail_next_work(cudaErrorLaunchFailure);
  int value = 5;
  old->write(memory->data(), &value, sizeof value);
  EXPECT_NE(error_of([&] { old->wait(); }).code(), Code::kOk);
  const auto fresh = make_device_backend({});
  EXPECT_EQ(error_of([&] { old->read(&value, memory->data(), sizeof value); }).code(),
            Code::kPoisoned);
  memory.reset();  // what the reset took is not freed again
  const auto other = fresh->allocate(sizeof value);
  fresh->write(other->data(), &value, sizeof value);
  value = 0;
  fresh->read(&value, other->data(), sizeof value);
  EXPECT_EQ(value, 5);
}

// NVIDIA promises nothing of a process whose context was lost.
TEST_F(EmulatedRuntime, ADeviceThatNoResetRevivesWantsTheProcessRestarted) {
  const auto old = make_device_backend({});
  const auto memory = old->allocate(64);
  EXPECT_EQ(error_of([&] { test::break_device(*old); }).code(), Code::kDevice);
  machine().resets = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Error error = error_of([&] { make_device_backend({}); });
    EXPECT_EQ(error.code(), Code::kPoisoned);
    EXPECT_THAT(error.what(), HasSubstr("does not answer after a reset; restart the process"));
    EXPECT_THAT(error.detail().hint, HasSubstr("restart the process"));
  }
  EXPECT_EQ(error_of([&] { old->wait(); }).code(), Code::kPoisoned);
  machine().resets = true;
  EXPECT_NE(make_device_backend({})->allocate(16), nullptr);
}

// What a library made on a device is freed while the device is healthy, and only then.
TEST_F(EmulatedRuntime, NothingIsFreedOnADeviceThatHasFailed) {
  struct Owned {
    explicit Owned(int& count) : freed(count) {}
    ~Owned() { ++freed; }
    int& freed;
  };
  int freed = 0;
  const auto device = std::make_shared<DeviceState>(Options{});
  device->life().own(std::make_unique<Owned>(freed)).reset();
  EXPECT_EQ(freed, 1);
  auto failed = device->life().own(std::make_unique<Owned>(freed));
  auto reset = device->life().own(std::make_unique<Owned>(freed));
  device->life().poison();
  failed.reset();
  EXPECT_EQ(freed, 1);
  const DeviceState fresh{Options{}};
  reset.reset();
  EXPECT_EQ(freed, 1);
  fresh.life().own(std::make_unique<Owned>(freed)).reset();
  EXPECT_EQ(freed, 2);
}

// A library has a copy of the runtime of its own: what it broke shows in no last error.
TEST_F(EmulatedRuntime, ALibrarysErrorPoisonsIfTheDeviceHasFailed) {
  DeviceState device{Options{}};
  const auto fail_in_cudnn = [&] {
    ErrorDetail detail;
    detail.domain = Domain::kCudnn;
    fail(Code::kDevice, "running a convolution", std::move(detail));
  };
  EXPECT_EQ(error_of([&] { device.use(fail_in_cudnn); }).code(), Code::kDevice);
  device.use([&] { device.synchronize(); });  // as before
  emulation::fail_unseen(cudaErrorLaunchFailure);
  EXPECT_EQ(error_of([&] { device.use(fail_in_cudnn); }).code(), Code::kDevice);
  EXPECT_EQ(error_of([&] { device.use([] {}); }).code(), Code::kPoisoned);
}

// An error that arrives late, when another backend has reset the device already.
TEST_F(EmulatedRuntime, AnErrorFromBeforeAResetDoesNotPoisonWhatCameAfter) {
  DeviceState old{Options{}};
  std::unique_ptr<DeviceState> fresh;
  const Error late = error_of([&] {
    old.use([&] {
      old.life().poison();
      fresh = std::make_unique<DeviceState>(Options{});
      check(cudaErrorIllegalAddress, "waiting for a program");
    });
  });
  EXPECT_EQ(late.code(), Code::kDevice);
  fresh->use([&] { fresh->synchronize(); });
}

// Choosing a device would make a context there, of some hundred megabytes.
TEST_F(EmulatedRuntime, OtherDevicesAreLeftAlone) {
  machine().devices = 2;
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  const auto use_second = [] { make_device_backend({.index = 1})->allocate(64); };
  int current = -1;
  std::thread([&] { use_second(); }).join();
  EXPECT_FALSE(emulation::has_context(0));
  EXPECT_TRUE(emulation::has_context(1));
  std::thread([&] {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    use_second();
    ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  }).join();
  EXPECT_EQ(current, 0);  // the host's, where it has one
}

// What is allocated during a capture spoils it; neither error is left for the next launch.
TEST_F(EmulatedRuntime, AFailedCaptureLeavesNoErrorBehind) {
  const auto backend = make_device_backend({});
  bool fails = false;
  const auto program = backend->make_executable({Launch([&](Queue&) {
                                                  void* data = nullptr;
                                                  if (fails)
                                                    check(cudaMalloc(&data, 16), "allocating");
                                                })},
                                                0);
  program->run(nullptr);
  fails = true;
  EXPECT_EQ(error_of([&] { program->run(nullptr); }).detail().native_code,
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  fails = false;
  program->run(nullptr);
}

// What cannot be cancelled any more has changed what outlives the run.
TEST_F(EmulatedRuntime, AProgramThatFailsBehindItsCancellablePartIsInDoubt) {
  const auto backend = make_device_backend({});
  for (const size_t cancellable : {0, 1, 2, 3}) {
    std::vector<ScheduledLaunch> launches;
    launches.emplace_back([](Queue&) {});
    launches.emplace_back([](Queue&) { check(cudaErrorInvalidValue, "launching"); });
    launches.emplace_back([](Queue&) {});
    const auto program = backend->make_executable(std::move(launches), cancellable);
    EXPECT_EQ(error_of([&] { program->run(nullptr); }).code(), Code::kDevice);
    EXPECT_EQ(program->in_doubt(), cancellable < 2) << cancellable;
  }
}

// Running out of memory, or an argument that a call refuses, leaves the device as it was.
// A life of everything that is made on a device, in which one call fails, for each of the calls.
TEST_F(EmulatedRuntime, AFailingCallLeaksNothing) {
  const auto live = [] {
    const auto backend = make_device_backend({});
    const auto memory = backend->allocate(256);
    const auto feed = backend->make_feed({.array_bytes = {64}}, *backend);
    const std::vector<float> batch(16, 1.0f);
    const void* const arrays[] = {batch.data()};
    void* const targets[] = {memory->data()};
    feed->stage(arrays);
    feed->deliver(targets);
    std::vector<ScheduledLaunch> launches;
    for (const QueueId queue : {QueueId::kCompute, QueueId::kCommunication}) {
      const auto nothing = [](Queue&) {};
      launches.emplace_back(nothing, queue, queue == QueueId::kCompute ? -1 : 0);
    }
    const auto program = backend->make_executable(std::move(launches), 0);
    for (int run = 0; run < 3; ++run) program->run(nullptr);  // enqueued, captured, replayed
    program->run_timed();
    std::vector<float> got(16);
    backend->read(got.data(), memory->data(), 64);
    EXPECT_EQ(got, batch);
    DeviceState device{Options{}};
    device.use([&] {
      const TimingBuffer buffer(1000, device.stream());
      time_on_stream(device.stream(), [](int) {});
    });
  };
  live();
  const emulation::Held before = emulation::held();
  emulation::fail_call(0);
  live();
  const int64_t calls = emulation::fail_call(0);
  EXPECT_GT(calls, 40);
  for (int64_t n = 1; n <= calls; ++n) {
    emulation::fail_call(n);
    EXPECT_EQ(error_of(live).code(), Code::kDevice) << "call " << n;
    emulation::fail_call(0);
    const emulation::Held after = emulation::held();
    EXPECT_EQ(after.blocks, before.blocks) << "call " << n;
    EXPECT_EQ(after.streams, before.streams) << "call " << n;
    EXPECT_EQ(after.events, before.events) << "call " << n;
    EXPECT_EQ(after.graphs, before.graphs) << "call " << n;
  }
}

TEST_F(EmulatedRuntime, OtherErrorsDoNotPoison) {
  const auto backend = make_device_backend({});
  int value = 1;
  const Error error = error_of([&] { backend->write(&value, &value, sizeof value); });
  EXPECT_EQ(error.code(), Code::kDevice);
  EXPECT_EQ(error.detail().native_code, cudaErrorInvalidValue);
  EXPECT_NE(backend->allocate(1024), nullptr);
}

}  // namespace
}  // namespace assay::cuda
