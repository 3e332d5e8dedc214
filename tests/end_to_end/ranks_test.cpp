// recipe-run as the ranks of mpirun: the record has the bits of one process that plays the devices,
// also when ranks are killed or stopped on the way.
#include <gmock/gmock.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/end_to_end/ranks_run.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/json.h"

namespace end_to_end {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kKills = 5;

TEST_F(Ranks, HaveTheRecordOfEmulation) {
  ASSERT_EQ(run("emulated", with(kTwoDevices, {"--emulate-devices", "2"})).code, 0);
  const Ended ended = run_ranks("ranks");
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("1 of 1 trials finished"));
  EXPECT_THAT(ended.out, ContainsRegex("2 ranks summed [0-9.]+ MB an update in [0-9.]+ ms, "
                                       "[0-9]+ % of it"));
  expect_same_training("emulated", "ranks");
}

// What all ranks do together counts together; each call measures what it has the devices for.
TEST_F(Ranks, MeasureTheirSum) {
  std::vector<std::string> sets;
  for (const char* set :
       {"bench.train.devices=[1, 2, 4]", "bench.train.batch=16", "bench.train.warmup_steps=2",
        "bench.train.measure_steps=8", "bench.train.repeats=1", "bench.infer.batch=1",
        "bench.infer.warmup_steps=2", "bench.infer.measure_steps=8", "bench.infer.repeats=1"})
    sets.insert(sets.end(), {"--set", set});
  std::vector<std::string> words = ranks(2, "timed", sets);
  std::erase(words, "--no-bench");
  const Ended ended = Process(words, at("")).wait();
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  const fs::path benches = run_folder("timed") / "bench";
  EXPECT_TRUE(fs::exists(benches / "infer-d1-b1"));
  EXPECT_FALSE(fs::exists(benches / "train-d4-b16"));
  for (const int devices : {1, 2}) {
    const fs::path repeat = benches / ("train-d" + std::to_string(devices) + "-b16") / "rep-1";
    reciperun::record::BenchRepeat result;
    reciperun::read_json(repeat / "result.json", result);
    double seconds = 0;
    for (const auto& step : reciperun::read_steps(repeat / "steps.bin", 1)) seconds += step[0];
    EXPECT_NEAR(result.items_per_second(), devices * 16 * 8 / seconds, 1e-6 / seconds);
  }
}

// Not even a link that is slow and loses packets changes a bit.
TEST_F(Ranks, OnTwoHosts) {
  const std::vector<std::string> hosts = {ASSAY_SOURCE_DIR "/tests/end_to_end/two_hosts.sh"};
  const Ended ended = Process(with(hosts, command("hosts", kTwoDevices)), at("")).wait();
  if (ended.code == 77) GTEST_SKIP() << ended.out << ended.err;
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("2 ranks summed"));
  ASSERT_EQ(run("emulated", with(kTwoDevices, {"--emulate-devices", "2"})).code, 0);
  expect_same_training("emulated", "hosts");
}

// Without MPI each would take itself for the only one.
TEST_F(Ranks, OtherLaunchersAreRefused) {
  const std::vector<std::string> torchrun = {"/usr/bin/env", "RANK=1", "WORLD_SIZE=2"};
  const Ended ended = Process(with(torchrun, command("torchrun")), at("")).wait();
  expect_refusal(ended, 2, "this is one of 2 processes, as torchrun starts them");
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

// Only the first rank writes: the others hear of it, and none waits for another.
TEST_F(Ranks, ACheckpointThatCannotBeWrittenEndsAll) {
  Process process(ranks(2, "full", kOften), at(""));
  wait_for_step("full", 3, process);
  ASSERT_TRUE(signal_rank("full", "0", SIGKILL));
  process.wait();
  const int64_t step = saved_step("full");
  const fs::path in_the_way =
      trial_folder("full") / ("checkpoint-" + std::to_string(step + 1)) / "folder";
  fs::create_directories(in_the_way);
  const Ended ended = run_ranks("full", kOften);
  EXPECT_EQ(ended.code, 5) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rank 0 could not save"));
  EXPECT_EQ(saved_step("full"), step);
  EXPECT_TRUE(processes("full", "0").empty() && processes("full", "1").empty());
  fs::remove_all(in_the_way.parent_path());
  ASSERT_EQ(run_ranks("full", kOften).code, 0);
  ASSERT_EQ(run("emulated", with(kTwoDevices, {"--emulate-devices", "2"})).code, 0);
  expect_same_training("emulated", "full");
}

// The second rank reads a copy of the data whose records are damaged.
TEST_F(Ranks, WhatFailsOnOneRankEndsAll) {
  for (const char* folder : {"rank0", "rank1"}) {
    fs::create_directories(at(folder));
    fs::copy(at("data"), at(folder) / "data", fs::copy_options::recursive);
  }
  for (const auto& entry : fs::recursive_directory_iterator(at("rank1"))) {
    if (entry.path().filename().string().find("train") == std::string::npos) continue;
    for (int64_t at = 500; at < static_cast<int64_t>(entry.file_size()); at += 1000)
      damage(entry.path(), at);
  }
  std::vector<std::string> words = {kMpirun, "--allow-run-as-root", "--oversubscribe"};
  for (const char* folder : {"rank0", "rank1"}) {
    if (words.size() > 3) words.emplace_back(":");
    words = with(words, {"-np", "1", "--wdir", at(folder).string()});
    for (const std::string& word : command("alone", kTwoDevices))
      words.push_back(word.starts_with("--data=") ? "--data=data" : word);
  }
  const Ended ended = Process(words, at("")).wait();
  EXPECT_NE(ended.code, 0) << ended.out;
  EXPECT_EQ(ended.signal, 0) << "they waited for each other";
  EXPECT_THAT(ended.err, HasSubstr(".tfrecord"));
  EXPECT_TRUE(processes("alone", "0").empty() && processes("alone", "1").empty());
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
