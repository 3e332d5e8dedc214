// Which of a library's proposals is taken, on the emulated runtime; and room for their workspaces.
#include "sdk/backend/cuda/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/workspace.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/harness/error_of.h"

namespace assay::cuda {
namespace {

using test::error_of;
using testing::ElementsAre;

// Proposals that take so many milliseconds each; negative ones fail while they are enqueued.
class Proposals {
 public:
  explicit Proposals(std::vector<int> milliseconds) : milliseconds_(std::move(milliseconds)) {}

  std::optional<int64_t> fastest(const std::function<bool(int64_t)>& prepare) {
    std::optional<int64_t> best;
    device_.use([&] {
      best = fastest_of(static_cast<int64_t>(milliseconds_.size()), device_.stream(), prepare,
                        [&](int64_t i) { enqueue(i); });
    });
    return best;
  }
  std::optional<int64_t> fastest() {
    return fastest([](int64_t) { return true; });
  }
  const std::vector<int64_t>& tried() const { return tried_; }

 private:
  void enqueue(int64_t i) {
    if (tried_.empty() || tried_.back() != i) tried_.push_back(i);
    const int milliseconds = milliseconds_[static_cast<size_t>(i)];
    if (milliseconds < 0) fail(Code::kDevice, "not supported after all");
    emulation::enqueue(device_.stream(), [=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    });
  }

  DeviceState device_{Options{}};
  std::vector<int> milliseconds_;
  std::vector<int64_t> tried_;
};

TEST(FastestOf, TimesEveryProposal) {
  EXPECT_EQ(Proposals({9, 1, 9}).fastest(), 1);
  EXPECT_EQ(Proposals({}).fastest(), std::nullopt);
}

TEST(FastestOf, PassesOverProposalsThatFail) {
  EXPECT_EQ(Proposals({-1, 9, -1, 1}).fastest(), 3);
  EXPECT_EQ(Proposals({-1, -1}).fastest(), std::nullopt);
}

// Those that are not there, or fail, do not count among the first few.
TEST(FastestOf, TriesAsManyAsWork) {
  Proposals proposals({0, 0, -1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_TRUE(proposals.fastest([](int64_t i) { return i % 2 == 0 || i > 5; }));
  EXPECT_THAT(proposals.tried(), ElementsAre(0, 2, 4, 6, 7, 8, 9, 10, 11, 12));
}

TEST(FastestOf, RaisesWhatLosesTheDevice) {
  Proposals proposals({0, 0});
  const auto prepare = [](int64_t i) {
    if (i == 1) emulation::fail_next_work(cudaErrorIllegalAddress);
    return true;
  };
  EXPECT_EQ(error_of([&] { proposals.fastest(prepare); }).detail().native_code,
            cudaErrorIllegalAddress);
  EXPECT_EQ(error_of([&] { proposals.fastest(); }).code(), Code::kPoisoned);
}

TEST(Tuning, KeepsChoicesOfEachMachineInItsFile) {
  const auto path =
      std::filesystem::temp_directory_path() /
      cat("assay_tuning_", std::chrono::steady_clock::now().time_since_epoch().count());
  EXPECT_FALSE(Tuning("gpu 1").enabled());
  ASSERT_EQ(setenv("ASSAY_CUDA_PLAN_CACHE", path.c_str(), 1), 0);
  Tuning("gpu 1").keep("conv a", "engine 3");
  Tuning("gpu 2").keep("conv a", "engine 4");
  Tuning tuning("gpu 1");
  unsetenv("ASSAY_CUDA_PLAN_CACHE");
  EXPECT_TRUE(tuning.enabled());
  EXPECT_EQ(tuning.find("conv a"), "engine 3");
  EXPECT_EQ(tuning.find("conv b"), "");
  std::filesystem::remove(path);
}

TEST(Workspace, HasRoomWhereverScratchBegins) {
  EXPECT_EQ(with_room_to_align(0), 0u);
  for (size_t offset = 0; offset < 512; offset += kScratchAlignment) {
    auto* const scratch = reinterpret_cast<char*>(0x10000 + offset);
    auto* const workspace = static_cast<char*>(aligned_workspace(scratch));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment, 0u);
    EXPECT_GE(workspace, scratch);
    EXPECT_LE(workspace + 1000, scratch + with_room_to_align(1000));
  }
}

}  // namespace
}  // namespace assay::cuda
