// The watch over a GPU, with a library that plays the driver's.
#include "tools/recipe_run/run/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
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
  set("FAKE_NVML_PROCESS", std::to_string(getpid()) + ",1");
  EXPECT_EQ(level(watched(), "foreign GPU process"), NoiseLevel::kBlock);
}

TEST_F(GpuWatchTest, AProcessThatThisOneStartedIsNotForeign) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  set("FAKE_NVML_PROCESS", std::to_string(child));
  EXPECT_EQ(level(watched(), "foreign GPU process"), NoiseLevel::kQuiet);
  kill(child, SIGTERM);
  waitpid(child, nullptr, 0);
}

// A repeat is measured in a process of its own, while the one that started it keeps the GPU too.
TEST_F(GpuWatchTest, TheProcessThatStartedThisOneIsNotForeign) {
  const pid_t starter = getpid();
  const pid_t child = fork();
  if (child == 0) {
    set("FAKE_NVML_PROCESS", std::to_string(starter));
    _exit(level(watched(), "foreign GPU process") == NoiseLevel::kQuiet ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// 1 init, 10 a shell, 20 and 30 this program, 40 what it started, 50 another program.
TEST(ForeignProcess, IsOneOutsideOfThisProgramsTree) {
  const std::map<int, int> parents = {{10, 1}, {20, 10}, {30, 20}, {40, 20}, {50, 10}};
  const auto foreign = [&](const std::vector<int>& listed, bool container = false) {
    return foreign_process(
        listed, container, 30, [&](int pid) { return parents.contains(pid) ? parents.at(pid) : 0; },
        [](int pid) { return pid == 20 || pid == 30; });
  };
  EXPECT_EQ(foreign({}), false);
  EXPECT_EQ(foreign({20, 30, 40}), false);
  EXPECT_EQ(foreign({30, 50}), true);
  EXPECT_EQ(foreign({10}), true);
  EXPECT_EQ(foreign({4711}), true) << "a process that is gone, or another user's";
  EXPECT_EQ(foreign({4711, 4712}, true), std::nullopt) << "numbers of the host";
  EXPECT_EQ(foreign({30, 4711}, true), true) << "numbers of the container";
  EXPECT_EQ(foreign({}, true), false);
}

TEST_F(GpuWatchTest, WhatCannotBeWatchedIsSaid) {
  EXPECT_THAT(watched("cuda:0").unwatched, HasSubstr("knows no GPU 7"));
  EXPECT_THAT(watched("cpu").unwatched, HasSubstr("not a GPU"));
  EXPECT_THAT(GpuWatch("cuda:0", "libnone.so").result().unwatched, HasSubstr("no libnone.so here"));
  EXPECT_TRUE(gpu_checks(GpuWatch("cpu").result()).empty());
}

}  // namespace
}  // namespace reciperun
