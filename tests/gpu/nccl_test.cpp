// The channel between GPUs, on the emulated runtime and a NCCL that works between threads
// (emulation/loop_nccl.cpp): the bits of every other channel, and what becomes of failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "sdk/backend/cuda/backend.h"
#include "sdk/backend/cuda/nccl.h"
#include "sdk/comm/local.h"
#include "tests/comm/channel_cases.h"
#include "tests/comm/training_cases.h"
#include "tests/gpu/device_hooks.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/harness/error_of.h"

namespace assay::cuda {
namespace {

using namespace std::chrono_literals;
using emulation::machine;
using test::error_of;
using test::expect_error;
using test::kNetworks;
using test::numbers_of;
using test::Training;
using testing::AnyOf;
using testing::HasSubstr;

// One of several GPUs, played by a thread.
struct Gpu {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Channel> channel;

  int rank() const { return channel->rank(); }
  int size() const { return channel->size(); }
  Training training(const test::Network& network = kNetworks[0]) const {
    return {network, size(), size(), channel, 0, [this] { return backend; }};
  }
};

// How ranks connect.
struct Group {
  std::string name;
  int size;
  std::chrono::nanoseconds timeout;
  bool capture = true;

  Gpu connect(int rank) const {
    Gpu gpu{make_device_backend({.index = rank, .capture = capture}), nullptr};
    gpu.channel = gpu.backend->make_channel(make_local_channel(name, rank, size, timeout), timeout,
                                            gpu.backend);
    return gpu;
  }
};

Group new_group(int size, std::chrono::nanoseconds timeout = 60s, bool capture = true) {
  static int groups = 0;
  machine().devices = size;
  return {cat("gpus ", ++groups), size, timeout, capture};
}

void in_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Calls body on the thread of each rank of the group.
void on_gpus(const Group& group, const std::function<void(const Gpu&)>& body) {
  in_threads(group.size, [&](int rank) { body(group.connect(rank)); });
}

class NcclChannel : public testing::Test {
 protected:
  void TearDown() override { machine() = {}; }
};

// ---- Sums ----

// Numbers on the device, and a program that does one thing with them.
class OnDevice {
 public:
  OnDevice(const Gpu& gpu, size_t n)
      : backend_(gpu.backend), n_(n), memory_(backend_->allocate(n * sizeof(float))) {}
  float* data() const { return static_cast<float*>(memory_->data()); }
  void plan(Launch launch) {
    std::vector<ScheduledLaunch> launches;
    launches.emplace_back(std::move(launch), QueueId::kCommunication);
    program_ = backend_->make_executable(std::move(launches), 0);
  }
  std::vector<float> run(const std::vector<float>& with) {
    backend_->write(data(), with.data(), n_ * sizeof(float));
    program_->run(nullptr);
    std::vector<float> result(n_);
    backend_->read(result.data(), data(), n_ * sizeof(float));
    return result;
  }

 private:
  std::shared_ptr<Backend> backend_;
  size_t n_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Executable> program_;
};

float as_f16(float value) { return static_cast<float>(Float16(value)); }

// In the order of the ranks, whether enqueued, captured or replayed.
void expect_sums(const Gpu& gpu, DType wire) {
  const bool rounds = wire == DType::kF16;
  const auto sent = [&](int rank, int64_t n) {
    std::vector<float> numbers = numbers_of(rank, n);
    if (!rounds) return numbers;
    for (float& number : numbers) number *= 1e-2f;  // f16 ends at 65504
    return numbers;
  };
  for (const int64_t n : {1, 15, 17, 1000, 4099}) {
    std::vector<float> expected(static_cast<size_t>(n));
    for (int rank = 0; rank < gpu.size(); ++rank) {
      const std::vector<float> theirs = sent(rank, n);
      for (size_t i = 0; i < expected.size(); ++i) {
        const float value = rounds ? as_f16(theirs[i]) : theirs[i];
        expected[i] = rank == 0 ? value : expected[i] + value;
      }
    }
    if (rounds) std::ranges::transform(expected, expected.begin(), as_f16);
    OnDevice numbers(gpu, expected.size());
    numbers.plan(gpu.channel->all_reduce(numbers.data(), n, wire));
    for (int run = 0; run < 4; ++run) EXPECT_EQ(numbers.run(sent(gpu.rank(), n)), expected) << n;
  }
}

TEST_F(NcclChannel, SumsInOrderUnderEverySchedule) {
  test::under_every_schedule([] {
    for (const int size : {1, 2, 3}) {
      on_gpus(new_group(size), [](const Gpu& gpu) {
        expect_sums(gpu, DType::kF32);
        expect_sums(gpu, DType::kF16);
      });
    }
  });
}

TEST_F(NcclChannel, BroadcastsFromTheFirstAndGathersTexts) {
  on_gpus(new_group(3), [](const Gpu& gpu) {
    OnDevice numbers(gpu, 1000);
    numbers.plan(gpu.channel->broadcast(numbers.data(), 4000));
    EXPECT_EQ(numbers.run(numbers_of(gpu.rank(), 1000)), numbers_of(0, 1000));
    EXPECT_EQ(gpu.channel->gather(cat("rank ", gpu.rank())),
              (std::vector<std::string>{"rank 0", "rank 1", "rank 2"}));
  });
}

// ---- Training ----

class NcclTraining : public NcclChannel, public testing::WithParamInterface<size_t> {};

TEST_P(NcclTraining, HasTheBitsOfEmulation) {
  const std::string folder = testing::TempDir() + cat("nccl_", GetParam());
  std::filesystem::create_directories(folder);
  on_gpus(new_group(2), [&](const Gpu& gpu) {
    test::expect_bits_of_emulation(gpu.channel, kNetworks[GetParam()], folder,
                                   [&] { return gpu.backend; });
  });
  std::filesystem::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(Networks, NcclTraining, testing::Range(size_t{0}, std::size(kNetworks)));

TEST_F(NcclChannel, SeveralBatchesOnEachAreSummedThereFirst) {
  on_gpus(new_group(2), [](const Gpu& gpu) {
    test::expect_accumulation_on_each_device(gpu.channel, [&] { return gpu.backend; });
  });
}

// With events between two streams alone, as with a graph; whatever is late or early.
TEST_F(NcclChannel, TrainsToTheSameBitsUnderEverySchedule) {
  std::vector<std::byte> expected;
  const auto train = [&](bool capture) {
    on_gpus(new_group(3, 60s, capture), [&](const Gpu& gpu) {
      const Training training = gpu.training();
      for (uint64_t update = 0; update < 3; ++update)
        training.step(update * 3 + static_cast<uint64_t>(gpu.rank()));
      const auto values = training.instance->segments().save(Role::kValue).bytes;
      if (gpu.rank() == 0 && expected.empty()) expected = values;
      gpu.channel->gather("");
      EXPECT_TRUE(values == expected);
    });
  };
  test::under_every_schedule([&] {
    train(true);
    train(false);
  });
}

TEST_F(NcclChannel, SkipsOrRefusesTogether) {
  on_gpus(new_group(2), [](const Gpu& gpu) {
    test::expect_refused_everywhere(gpu.channel, [&] { return gpu.backend; });
  });
}

// ---- Failures ----

std::vector<std::byte> weights_of(const Training& training) { return training.bytes(); }

// Enqueued, captured, replayed: what waits for a rank that does not come is given up, and changes
// nothing; what comes later fails alike.
TEST_F(NcclChannel, AStepThatWaitsInVainChangesNothing) {
  for (uint64_t steps = 0; steps < 3; ++steps) {
    std::atomic<int> over{0};
    on_gpus(new_group(3, 2s), [&](const Gpu& gpu) {
      const Training training = gpu.training();
      for (uint64_t i = 0; i < steps; ++i) training.step(i);
      if (gpu.rank() == 1) {
        for (int turn = 0; over < 2 && turn < 60000; ++turn) std::this_thread::sleep_for(1ms);
        return expect_error(Code::kComm, "rank 1 has not come within 2 s",
                            [&] { training.step(steps); });
      }
      const auto before = weights_of(training);
      const Error first = error_of([&] { training.step(steps); });
      EXPECT_TRUE(first.code() == Code::kTimeout || first.code() == Code::kComm) << first.what();
      EXPECT_THAT(first.message(), HasSubstr("rank 1 has not come within 2 s"));
      EXPECT_TRUE(weights_of(training) == before);
      EXPECT_EQ(training.trainer->step_count(), static_cast<int64_t>(steps));
      expect_error(Code::kComm, "the channel has ended: rank 1 has not come within 2 s",
                   [&] { training.step(steps); });
      expect_error(Code::kComm, "rank 1 has not come", [&] { gpu.channel->gather(""); });
      expect_error(Code::kComm, "rank 1 has not come", [&] { gpu.channel->listen(); });
      ++over;
    });
  }
}

TEST_F(NcclChannel, ARankThatAbortsOrLeavesIsNamedAtOnce) {
  for (const bool aborts : {true, false}) {
    for (uint64_t steps = 1; steps < 4; ++steps) {
      const auto start = std::chrono::steady_clock::now();
      std::latch stepped(2);  // who has its sum may leave while the other still waits for its own
      on_gpus(new_group(2), [&](const Gpu& gpu) {
        const Training training = gpu.training();
        for (uint64_t i = 0; i < steps; ++i) training.step(i);
        stepped.arrive_and_wait();
        if (gpu.rank() == 1) {
          if (aborts) gpu.channel->abort();
          return;
        }
        const auto before = weights_of(training);
        expect_error(Code::kComm, aborts ? "rank 1 has aborted it" : "rank 1 has left",
                     [&] { training.step(steps); });
        EXPECT_TRUE(weights_of(training) == before);
      });
      EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
    }
  }
}

// A rank waits on its device for one that gathers: neither takes the other's words for its own.
TEST_F(NcclChannel, RanksThatAreNotAtTheSameCallAreToldSo) {
  on_gpus(new_group(2, 2s), [&](const Gpu& gpu) {
    const Training training = gpu.training();
    training.step(0);
    const auto before = weights_of(training);
    if (gpu.rank() == 1) std::this_thread::sleep_for(1s);
    const Error error = error_of([&] {
      if (gpu.rank() == 0) return training.step(1);
      gpu.channel->gather("a text");
    });
    EXPECT_EQ(error.code(), Code::kComm);
    EXPECT_THAT(error.message(),
                AnyOf(HasSubstr("rank 0 waits for its GPU, and rank 1 has come to another call"),
                      HasSubstr(cat("rank ", 1 - gpu.rank(), " has aborted it"))));
    EXPECT_TRUE(weights_of(training) == before);
  });
}

// A device that waits on in spite of the abort is given up, at once the second time.
TEST_F(NcclChannel, ADeviceThatDoesNotEndIsGivenUp) {
  on_gpus(new_group(2, 500ms), [&](const Gpu& gpu) {
    const Training training = gpu.training();
    training.step(0);
    gpu.channel->gather("");
    machine().nccl_ends = false;
    if (gpu.rank() == 1) return gpu.channel->abort();
    const auto start = std::chrono::steady_clock::now();
    expect_error(Code::kTimeout,
                 "the GPU still waits for the other ranks: ", [&] { training.step(1); });
    const Error again = error_of([&] { training.step(1); });
    EXPECT_THAT(again.code(), AnyOf(Code::kTimeout, Code::kComm)) << again.what();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
    machine().nccl_ends = true;  // so that this test comes to an end
  });
}

// By another thread, while a step waits on the device.
TEST_F(NcclChannel, AWaitIsEndedByAnotherThread) {
  on_gpus(new_group(2), [&](const Gpu& gpu) {
    const Training training = gpu.training();
    for (uint64_t i = 0; i < 3; ++i) training.step(i);
    const auto before = weights_of(training);
    gpu.channel->gather("");
    if (gpu.rank() == 1)
      return expect_error(Code::kComm, "rank 0 has aborted it", [&] {
        std::this_thread::sleep_for(500ms);
        training.step(3);
      });
    std::thread other([&] {
      std::this_thread::sleep_for(100ms);
      gpu.channel->abort();
    });
    expect_error(Code::kComm, "rank 0 has aborted it", [&] { training.step(3); });
    EXPECT_TRUE(weights_of(training) == before);
    other.join();
  });
}

// A life with a channel, in which one call of NCCL fails on rank 1, for each of its calls. Nobody
// waits for ever, both say why, and the device is as good as before.
TEST_F(NcclChannel, AnyCallOfNcclMayFail) {
  const auto live = [](const Gpu& gpu) {
    OnDevice numbers(gpu, 100);
    numbers.plan(gpu.channel->all_reduce(numbers.data(), 100, DType::kF32));
    for (int run = 0; run < 3; ++run) numbers.run(std::vector<float>(100, 1.0f));
  };
  int64_t calls = 0;
  const Group whole = new_group(2);
  in_threads(2, [&](int rank) {
    emulation::fail_nccl_call(0);
    live(whole.connect(rank));
    if (rank == 1) calls = emulation::fail_nccl_call(0);
  });
  EXPECT_GT(calls, 20);
  const int64_t leaving = 2;  // whose failure nobody needs to know
  for (int64_t n = 1; n <= calls - leaving; ++n) {
    const Group group = new_group(2);
    in_threads(2, [&](int rank) {
      emulation::fail_nccl_call(rank == 1 ? n : 0);
      const Error error = error_of([&] { live(group.connect(rank)); });
      EXPECT_EQ(error.code(), Code::kComm) << "call " << n << " " << error.what();
      EXPECT_THAT(error.message(),
                  HasSubstr(rank == 1 ? "NCCL: an emulated result (2), the last" : "rank 1 has"))
          << "call " << n;
      if (rank == 1) {
        EXPECT_EQ(error.detail().domain, Domain::kNccl);
        EXPECT_EQ(error.detail().native_code, 2);
      }
    });
  }
  on_gpus(new_group(2), live);
}

// NCCL says of an exchange under way that the other side is gone.
TEST_F(NcclChannel, AnExchangeThatFailsLaterIsFoundOut) {
  const Group group = new_group(2, 2s);
  in_threads(2, [&](int rank) {
    const Gpu gpu = group.connect(rank);
    const Training training = gpu.training();
    training.step(0);
    const auto before = weights_of(training);
    emulation::fail_nccl_call(0);
    training.step(1);
    const auto after = weights_of(training);
    EXPECT_FALSE(before == after);
    // The trainer's third step is a graph: the channel's next call is a sum of another program.
    OnDevice numbers(gpu, 100);
    numbers.plan(gpu.channel->all_reduce(numbers.data(), 100, DType::kF32));
    const int64_t end_of_group = 1 + 2 * 2 + 1;  // a start, sends and receives, an end
    emulation::fail_nccl_call(rank == 1 ? end_of_group : 0, true);
    const Error error = error_of([&] { numbers.run(std::vector<float>(100, 1.0f)); });
    EXPECT_EQ(error.code(), Code::kComm) << "rank " << rank << " " << error.what();
    expect_error(Code::kComm, "the channel has ended: ", [&] { training.step(2); });
    EXPECT_TRUE(weights_of(training) == after);
  });
}

TEST_F(NcclChannel, RanksThatDoNotComeAreNamed) {
  const Group group = new_group(2, 300ms);
  expect_error(Code::kTimeout, "rank 1 has not come within 0.3 s", [&] { group.connect(0); });
}

// NCCL would wait for the other one for ever.
TEST_F(NcclChannel, ARankLostWhileTheyConnectIsNamed) {
  const Group group = new_group(2, 500ms);
  in_threads(2, [&](int rank) {
    if (rank == 0)
      return expect_error(Code::kTimeout, "rank 1 has not come within 0.5 s",
                          [&] { group.connect(0); });
    const auto hosts = make_local_channel(group.name, rank, 2, 500ms);
    hosts->gather(nccl().version());
    hosts->gather(std::string(128, '\0'));
    std::this_thread::sleep_for(2s);
  });
}

TEST_F(NcclChannel, TwoRanksOnOneDeviceAreRefused) {
  const Group group = new_group(2);
  machine().devices = 1;
  in_threads(2, [&](int rank) {
    const std::shared_ptr<Backend> backend = make_device_backend({});
    const Error error = error_of(
        [&] { backend->make_channel(make_local_channel(group.name, rank, 2, 60s), 60s, backend); });
    EXPECT_EQ(error.code(), Code::kComm);
    EXPECT_THAT(error.message(),
                AnyOf(HasSubstr("NCCL: an emulated result (5)"), HasSubstr("has aborted it")));
  });
}

TEST_F(NcclChannel, AContextHasOneChannelAtATime) {
  const Gpu gpu = new_group(1).connect(0);
  const auto another = [&] {
    return gpu.backend->make_channel(make_local_channel("another", 0, 1, 1s), 1s, gpu.backend);
  };
  expect_error(Code::kInvalid, "has a channel already in this context", another);
  std::vector<float> one{1};
  OnDevice numbers(gpu, 1);  // the first is as before
  numbers.plan(gpu.channel->all_reduce(numbers.data(), 1, DType::kF32));
  EXPECT_EQ(numbers.run(one), one);
}

TEST(Nccl, SaysWhyItCannotBeUsed) {
  const Error none = error_of([] { open_nccl("libnccl_that_is_not_there.so"); });
  EXPECT_EQ(none.code(), Code::kUnsupported);
  EXPECT_THAT(none.message(), HasSubstr("NCCL cannot be used: libnccl_that_is_not_there.so"));
  EXPECT_THAT(none.detail().hint, HasSubstr("install NCCL"));
  expect_error(Code::kUnsupported, "libm.so.6 has no ncclGetVersion",
               [] { open_nccl("libm.so.6"); });
}

}  // namespace
}  // namespace assay::cuda
