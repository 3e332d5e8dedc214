// A channel of one rank: everything that several GPUs do, with NCCL's messages to itself. On a
// device it needs libnccl.so.2.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "sdk/comm/local.h"
#include "tests/comm/channel_cases.h"
#include "tests/comm/training_cases.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/error_of.h"

namespace assay::test {
namespace {

class OneGpu : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = make_backend_under_test(1);
    const auto connect = [&] {
      channel_ = backend_->make_channel(
          make_local_channel(cat("one gpu ", ++groups_), 0, 1, std::chrono::minutes(1)),
          std::chrono::minutes(1), backend_);
    };
    const Error error = error_of(connect);
    if (error.code() == Code::kUnsupported) GTEST_SKIP() << error.what();
    ASSERT_EQ(error.code(), Code::kOk) << error.what();
  }
  void TearDown() override { channel_.reset(); }

  static inline int groups_ = 0;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Channel> channel_;
};

// Enqueued, captured and replayed.
TEST_F(OneGpu, SumsByNccl) {
  for (const DType wire : {DType::kF32, DType::kF16}) {
    for (const int64_t n : {1, 17, 300000}) {
      std::vector<float> numbers = numbers_of(0, n), got(numbers.size());
      for (float& number : numbers) number *= 1e-2f;  // f16 ends at 65504
      const size_t bytes = numbers.size() * sizeof(float);
      const auto memory = backend_->allocate(bytes);
      auto* const data = static_cast<float*>(memory->data());
      std::vector<ScheduledLaunch> launches;
      launches.emplace_back(channel_->all_reduce(data, n, wire), QueueId::kCommunication);
      const auto program = backend_->make_executable(std::move(launches), 0);
      for (int run = 0; run < 4; ++run) {
        backend_->write(data, numbers.data(), bytes);
        program->run(nullptr);
        backend_->read(got.data(), data, bytes);
        for (size_t i = 0; i < got.size(); ++i) {
          const float expected =
              wire == DType::kF16 ? static_cast<float>(Float16(numbers[i])) : numbers[i];
          ASSERT_EQ(got[i], expected) << n << " numbers, run " << run << ", number " << i;
        }
      }
    }
  }
}

TEST_F(OneGpu, TrainsToTheBitsOfATrainerAlone) {
  const std::string folder = testing::TempDir() + cat("one_gpu_", getpid());
  std::filesystem::create_directories(folder);
  expect_bits_of_emulation(channel_, kNetworks[1], folder, [&] { return backend_; });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace assay::test
