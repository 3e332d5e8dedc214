// Trainers in threads, each one device of several.
#include <filesystem>

#include "tests/comm/local_ranks.h"
#include "tests/comm/training_cases.h"

namespace assay::test {
namespace {

using namespace std::chrono_literals;

TEST(LocalTraining, HasTheBitsOfEmulation) {
  for (const int ranks : {2, 4}) {
    for (size_t i = 0; i < std::size(kNetworks); ++i) {
      const std::string folder = testing::TempDir() + cat("comm_", ranks, "_", i);
      std::filesystem::create_directories(folder);
      on_ranks(ranks, [&](const auto& channel) {
        expect_bits_of_emulation(channel, kNetworks[i], folder);
      });
      std::filesystem::remove_all(folder);
    }
  }
}

TEST(LocalTraining, SumsBatchesOfADeviceFirst) { on_ranks(3, expect_accumulation_on_each_device); }

TEST(LocalTraining, SkipsOrRefusesTogether) { on_ranks(2, expect_refused_everywhere); }

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
