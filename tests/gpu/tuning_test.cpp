// Which of a library's proposals is taken, on the emulated runtime; and room for their workspaces.
#include "sdk/backend/cuda/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/ops/depthwise.h"
#include "sdk/backend/cuda/workspace.h"
#include "sdk/base/bfloat16.h"
#include "sdk/base/float16.h"
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
                        [&](int64_t i, int) { enqueue(i); });
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

// As f16, bf16 and f32: neither zeros nor what would overflow, and no two alike in a row.
TEST(TimingOperands, AreNoiseOfOrdinarySize) {
  DeviceState device{Options{}};
  constexpr size_t kValues = 3'000'001;  // beyond the pieces that it is made of
  std::vector<uint16_t> words(kValues);
  device.use([&] {
    const TimingOperands operands({2 * kValues, 2}, device.stream());
    const HostRead read{words.data(), operands.of(0)[0], 2 * kValues};
    device.read({&read, 1});
  });
  double sum = 0, alike = 0;
  for (size_t i = 0; i < kValues; ++i) {
    const auto f16 = static_cast<float>(std::bit_cast<Float16>(words[i]));
    const auto bf16 = static_cast<float>(std::bit_cast<Bfloat16>(words[i]));
    ASSERT_GE(std::abs(f16), 0.5f);
    ASSERT_LT(std::abs(f16), 2.0f);
    ASSERT_GE(std::abs(bf16), 0x1p-15f);
    ASSERT_LT(std::abs(bf16), 2.0f);
    sum += f16;
    alike += i > 0 && words[i] == words[i - 1];
  }
  EXPECT_NEAR(sum / kValues, 0, 0.01);
  EXPECT_LT(alike / kValues, 0.001);
}

// Small ones in memory of their own for every run, large ones in the same.
TEST(TimingOperands, TakeTurnsAsFarAsTheyFitIntoACache) {
  DeviceState device{Options{}};
  device.use([&] {
    const TimingOperands small({100, 200}, device.stream());
    const TimingOperands large({size_t{300} << 20}, device.stream());
    std::set<const void*> addresses;
    for (int run = 0; run < kTimedRuns; ++run) {
      for (const void* operand : small.of(run)) addresses.insert(operand);
      EXPECT_EQ(large.of(run)[0], large.of(0)[0]);
    }
    EXPECT_EQ(addresses.size(), 2u * kTimedRuns);
  });
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

// A call that takes so long and does nothing.
LibraryCall sleeping(const std::string& kernel, int milliseconds) {
  return {kernel, 0, [=](Stream stream, std::span<void* const>, void*) {
            emulation::enqueue(stream, [=] {
              std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
            });
          }};
}

Convolution depthwise() {
  Convolution c;
  c.geometry = {.pad_begin = {1, 1}, .pad_end = {1, 1}, .groups = 8};
  c.x = c.y = {1, 4, 4, 8};
  c.w = {8, 3, 3, 1};
  return c;
}

TEST(Depthwise, TakesWhatIsFasterAndRemembersIt) {
  Convolution asked = depthwise();
  const std::string path = testing::TempDir() + "/assay_depthwise_tuning";
  std::filesystem::remove(path);
  ASSERT_EQ(setenv("ASSAY_CUDA_PLAN_CACHE", path.c_str(), 1), 0);
  DeviceState device{Options{}};
  const auto chosen = [&](const LibraryCall& library, const LibraryCall& own) {
    Tuning tuning("gpu");
    std::string kernel;
    device.use([&] { kernel = faster_of(tuning, device.stream(), asked, library, own).kernel; });
    return kernel;
  };
  for (const ConvolutionKind kind :
       {ConvolutionKind::kForward, ConvolutionKind::kGradData, ConvolutionKind::kGradWeight}) {
    asked.kind = kind;
    const LibraryCall own = depthwise_convolution(asked).value();
    const bool library_wins = kind == ConvolutionKind::kForward;  // each kind has a line of its own
    EXPECT_EQ(
        chosen(sleeping("library", library_wins ? 0 : 20), sleeping("own", library_wins ? 20 : 0)),
        library_wins ? "library" : "own");
    EXPECT_EQ(chosen(sleeping("slow", 20), own), "own:depthwise");
    EXPECT_EQ(chosen(sleeping("quick", 0), sleeping("own:depthwise", 20)), "quick");
    // Known by what was timed, whatever it takes now.
    EXPECT_EQ(chosen(sleeping("slow", 0), sleeping("own:depthwise", 20)), "own:depthwise");
    EXPECT_EQ(chosen(sleeping("quick", 20), own), "quick");
  }
  unsetenv("ASSAY_CUDA_PLAN_CACHE");
  std::filesystem::remove(path);
}

TEST(Depthwise, LeavesTheRestToTheLibrary) {
  const auto is_own = [](const std::function<void(Convolution&)>& change) {
    Convolution asked = depthwise();
    change(asked);
    return depthwise_convolution(asked).has_value();
  };
  EXPECT_TRUE(is_own([](Convolution&) {}));
  EXPECT_FALSE(is_own([](Convolution& c) { c.has_bias = true; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.relu = true; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.keeps_sums = true; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.geometry.groups = 4, c.w[3] = 2; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.w[0] = c.y[3] = 16; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.geometry.groups = c.w[0] = c.x[3] = c.y[3] = 12; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.w[1] = c.w[2] = 7; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.geometry.dilation = {2, 2}; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.geometry.stride = {1, 2}; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.geometry.pad_begin = {3, 3}; }));
  EXPECT_FALSE(is_own([](Convolution& c) { c.x[0] = c.y[0] = int64_t{1} << 28; }));
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
