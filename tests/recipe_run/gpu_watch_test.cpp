// The watch over a GPU, with a library that plays the driver's.
#include "tools/recipe_run/run/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace reciperun {
namespace {

using ::testing::HasSubstr;

class GpuWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { set("CUDA_VISIBLE_DEVICES", "7,3"); }
  void TearDown() override {
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "FAKE_NVML_REASONS", "FAKE_NVML_PROCESS"})
      unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static GpuWindow watched(const std::string& device = "cuda:1") {
    GpuWatch watch(device, FAKE_NVML);
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
    return watch.result();
  }
  static NoiseLevel level(const GpuWindow& window, const std::string& name) {
    for (const NoiseCheck& check : gpu_checks(window)) {
      if (check.name == name) return check.level;
    }
    return NoiseLevel::kQuiet;
  }
};

TEST_F(GpuWatchTest, AQuietGpuOfItsOwnIsQuiet) {
  set("FAKE_NVML_PROCESS", std::to_string(getpid()));
  const GpuWindow window = watched();
  EXPECT_EQ(window.unwatched, "");
  EXPECT_EQ(window.slowed, 0);
  EXPECT_EQ(level(window, "foreign GPU process"), NoiseLevel::kQuiet);
  EXPECT_EQ(level(window, "GPU power cap"), NoiseLevel::kQuiet);
}

TEST_F(GpuWatchTest, AClockThatFellBlocks) {
  // The first sample ever has 2,000 MHz, all others 1,500.
  const GpuWindow window{"", 0.25, 0, 0, 0};
  EXPECT_EQ(level(window, "GPU clock drop"), NoiseLevel::kBlock);
  EXPECT_EQ(level({"", 0.05, 0, 0, 0}, "GPU clock drop"), NoiseLevel::kWarn);
  EXPECT_EQ(level({"", 0.01, 0, 0, 0}, "GPU clock drop"), NoiseLevel::kQuiet);
  EXPECT_GE(watched().clock_drop, 0);
}

TEST_F(GpuWatchTest, HeatBlocksThePowerLimitWarns) {
  set("FAKE_NVML_REASONS", "0x40");
  EXPECT_EQ(level(watched(), "GPU slow-down"), NoiseLevel::kBlock);
  set("FAKE_NVML_REASONS", "0x4");
  const GpuWindow capped = watched();
  EXPECT_EQ(capped.power_capped, 1);
  EXPECT_EQ(level(capped, "GPU power cap"), NoiseLevel::kWarn);
  EXPECT_EQ(level(capped, "GPU slow-down"), NoiseLevel::kQuiet);
}

TEST_F(GpuWatchTest, AnotherProcessBlocks) {
  set("FAKE_NVML_PROCESS", "1");
  EXPECT_EQ(level(watched(), "foreign GPU process"), NoiseLevel::kBlock);
}

TEST_F(GpuWatchTest, WhatCannotBeWatchedIsSaid) {
  EXPECT_THAT(watched("cuda:0").unwatched, HasSubstr("knows no GPU 7"));
  EXPECT_THAT(watched("cpu").unwatched, HasSubstr("not a GPU"));
  EXPECT_THAT(GpuWatch("cuda:0", "libnone.so").result().unwatched, HasSubstr("no libnone.so here"));
  EXPECT_TRUE(gpu_checks(GpuWatch("cpu").result()).empty());
}

}  // namespace
}  // namespace reciperun
