// recipe-run as the ranks of mpirun: the record has the bits of one process that plays the devices,
// also when ranks are killed or stopped on the way.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using testing::HasSubstr;

const char* const kMpirun = "/usr/bin/mpirun";
constexpr int kKills = 5;
const std::vector<std::string> kTwoDevices = {"--set", "topology.devices_per_node=2", "--set",
                                              "topology.parallel=data"};

class Ranks : public SmallRun {
 protected:
  void SetUp() override {
    if (!fs::exists(kMpirun)) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  }

  static std::vector<std::string> with(std::vector<std::string> words,
                                       const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> ranks(int n, const std::string& runs,
                                 const std::vector<std::string>& more = {}) const {
    return with({kMpirun, "--allow-run-as-root", "--oversubscribe", "-np", std::to_string(n)},
                command(runs, with(kTwoDevices, more)));
  }
  Ended run_ranks(const std::string& runs, const std::vector<std::string>& more = {}) const {
    return Process(ranks(2, runs, more), at("")).wait();
  }

  // Processes of recipe-run on these runs that mpirun started as a rank.
  std::vector<pid_t> processes(const std::string& runs, const std::string& rank) const {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const auto text = [&](const char* name) {
        std::ifstream file(entry.path() / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
      };
      if (!text("cmdline").starts_with(ASSAY_RECIPE_RUN)) continue;
      if (text("cmdline").find("--runs=" + at(runs).string()) == std::string::npos) continue;
      if (text("environ").find("OMPI_COMM_WORLD_RANK=" + rank) != std::string::npos)
        found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }
  // Whether there was one.
  bool signal_rank(const std::string& runs, const std::string& rank, int number) const {
    const std::vector<pid_t> found = processes(runs, rank);
    for (const pid_t process : found) kill(process, number);
    return !found.empty();
  }
};

TEST_F(Ranks, HaveTheRecordOfEmulation) {
  ASSERT_EQ(run("emulated", with(kTwoDevices, {"--emulate-devices", "2"})).code, 0);
  const Ended ended = run_ranks("ranks");
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("1 of 1 trials finished"));
  expect_same_training("emulated", "ranks");
}

TEST_F(Ranks, KilledAtAnyMomentTheyGoOn) {
  const std::vector<std::string> longer = with(kOften, {"--set", "training.epochs=6"});
  ASSERT_EQ(run("emulated", with(with(kTwoDevices, longer), {"--emulate-devices", "2"})).code, 0);
  std::mt19937 random(14);
  int killed = 0;
  for (; killed < kKills; ++killed) {
    Process process(ranks(2, "killed", longer), at(""));
    wait_for_step("killed", saved_step("killed") + static_cast<int64_t>(random() % 5), process);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    const std::string rank = std::to_string(random() % 2);
    while (process.running() && !signal_rank("killed", rank, SIGKILL))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (process.wait().code == 0) break;
    EXPECT_TRUE(processes("killed", "0").empty() && processes("killed", "1").empty());
  }
  EXPECT_GE(killed, 3) << "the training ended too early for a meaningful test";
  const Ended last = run_ranks("killed", longer);
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_training("emulated", "killed");
}

TEST_F(Ranks, OneThatStopsIsNamed) {
  Process process(ranks(2, "stopped", with(kOften, {"--rank-timeout", "2"})), at(""));
  wait_for_step("stopped", 3, process);
  signal_rank("stopped", "1", SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  signal_rank("stopped", "1", SIGCONT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rank 1 has not come within 2 s"));
  EXPECT_EQ(run_ranks("stopped", kOften).code, 0);
}

TEST_F(Ranks, AnInterruptKeepsWhatWasDone) {
  Process process(ranks(2, "interrupted"), at(""));
  while (process.running() && trial_folder("interrupted").empty()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  process.signal(SIGTERM);
  process.wait();
  EXPECT_EQ(run_ranks("interrupted").code, 0);
  ASSERT_EQ(run("emulated", with(kTwoDevices, {"--emulate-devices", "2"})).code, 0);
  expect_same_training("emulated", "interrupted");
}

TEST_F(Ranks, WhatDoesNotFitIsRefusedByAll) {
  const Ended three = Process(ranks(3, "three"), at("")).wait();
  EXPECT_NE(three.code, 0);
  EXPECT_THAT(three.out + three.err, HasSubstr("trains on 2 devices, here are 3"));
  const Ended both = run_ranks("both", {"--emulate-devices", "2"});
  EXPECT_NE(both.code, 0);
  EXPECT_THAT(both.err, HasSubstr("--emulate-devices is for one process"));
  // The second rank brings another recipe.
  std::vector<std::string> different = ranks(1, "different");
  const std::vector<std::string> other =
      command("different", with(kTwoDevices, {"--set", "training.optimizer.lr=0.5"}));
  different.insert(different.end(), {":", "-np", "1"});
  const Ended ended = Process(with(different, other), at("")).wait();
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 has another recipe, other data or other options"));
}

}  // namespace
}  // namespace end_to_end
