// Trainers in threads, each one device of several.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "sdk/base/float16.h"
#include "tests/comm/local_ranks.h"
#include "tests/comm/training_cases.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

void expect_bits_of_emulation(int ranks, const Network& network) {
  const std::string folder = testing::TempDir() + cat("comm_", getpid());
  std::filesystem::create_directories(folder);
  on_ranks(ranks, [&](const auto& channel) { expect_bits_of_emulation(channel, network, folder); });
  std::filesystem::remove_all(folder);
}

TEST(LocalTraining, HasTheBitsOfEmulation) {
  for (const int ranks : {2, 4})
    for (const Network& network : kNetworks) expect_bits_of_emulation(ranks, network);
}

TEST(LocalTraining, HasTheBitsOfEmulationOfADetector) { expect_bits_of_emulation(2, kDetector); }

TEST(LocalTraining, SumsBatchesOfADeviceFirst) {
  on_ranks(3, [](const auto& channel) { expect_accumulation_on_each_device(channel); });
}

// Each device's gradients are rounded, and then their sum.
TEST(LocalTraining, RoundsWhatItPlaysAsItWouldSendIt) {
  const auto gradients = [](const char* wire) {
    const Training training({kNetworks[0].name, kNetworks[0].config, wire}, 2, 2, nullptr);
    training.step(0), training.step(1);
    const auto bytes = training.instance->segments().save(Role::kGradient).bytes;
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<float> exact = gradients("fp32"), sent = gradients("fp16");
  EXPECT_NE(exact, sent);
  const float largest =
      std::abs(*std::ranges::max_element(exact, {}, [](float value) { return std::abs(value); }));
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(sent[i], static_cast<float>(Float16(sent[i]))) << i;
    ASSERT_NEAR(sent[i], exact[i], 0x1p-9 * largest) << i;
  }
}

TEST(LocalTraining, SkipsOrRefusesTogether) {
  on_ranks(2, [](const auto& channel) { expect_refused_everywhere(channel); });
}

TEST(LocalTraining, WantsTheSameOfAllRanks) {
  on_ranks(2, [](const auto& channel) {
    expect_disagreement_is_named(*channel);
    expect_other_configurations_refused(channel);
  });
}

TEST(LocalTraining, LoadsTheSameFileOnAllRanks) {
  const std::string folder = testing::TempDir() + "comm_files";
  std::filesystem::create_directories(folder);
  on_ranks(2, [&](const auto& channel) { expect_other_files_refused(channel, folder); });
  std::filesystem::remove_all(folder);
}

// One that is cancelled on one rank is over on all, and no later sum meets it.
TEST(LocalFailures, AStepThatEndsOnOneRankEndsOnAll) {
  on_ranks(2, [](const auto& channel) {
    const Training one(kNetworks[0], 2, 2, channel);
    one.step(static_cast<uint64_t>(channel->rank()));
    const bool cancelled = channel->rank() == 1;
    one.trainer->cancel_flag() = cancelled;
    expect_error(cancelled ? Code::kCancelled : Code::kComm,
                 cancelled ? "cancelled" : "rank 1 has aborted it", [&] { one.step(2); });
    one.trainer->cancel_flag() = false;
    expect_error(Code::kComm, "rank 1 has aborted it", [&] { one.step(3); });
    EXPECT_EQ(one.trainer->step_count(), 1);
  });
}

// A step that waits in vain changes nothing.
TEST(LocalFailures, AStepWithoutTheOthersChangesNothing) {
  on_ranks(
      2,
      [](const auto& channel) {
        const Training one(kNetworks[0], 2, 2, channel);
        one.step(static_cast<uint64_t>(channel->rank()));
        if (channel->rank() == 1) return;
        const auto before = one.bytes();
        expect_error(Code::kComm, "rank 1 has left", [&] { one.step(2); });
        EXPECT_EQ(one.bytes(), before);
        EXPECT_EQ(one.trainer->step_count(), 1);
      },
      20s);
}

}  // namespace
}  // namespace assay::test
