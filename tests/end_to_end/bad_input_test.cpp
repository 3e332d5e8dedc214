// What goes wrong around a run: each case has its exit code and a sentence that names the thing.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using testing::HasSubstr;

// Exit codes of recipe-run.
constexpr int kUsage = 2, kNotRun = 4, kFailed = 5, kData = 6, kTampered = 7;

class BadInput : public SmallRun {
 protected:
  fs::path shard(const std::string& split, int number) const {
    return data_set() / (split + "-0000" + std::to_string(number) + "-of-00004.tfrecord");
  }

  void leave_unfinished(const std::string& runs) const {
    Process process(command(runs, kOften), at(""));
    wait_for_step(runs, 3, process);
    process.signal(SIGKILL);
    ASSERT_EQ(process.wait().signal, SIGKILL);
  }
};

TEST_F(BadInput, MissingData) {
  fs::remove_all(data_set());
  const Ended missing = run("runs");  // a table of rows that were not run, and why
  EXPECT_EQ(missing.code, kNotRun);
  EXPECT_THAT(missing.out, HasSubstr("NOT RUN: there is no folder " + data_set().string()));
  fs::create_directories(data_set());
  expect_refusal(run("runs"), kData, "dataset.json");
}

TEST_F(BadInput, ADamagedManifest) {
  std::ofstream(data_set() / "dataset.json") << "{\n  \"dataset\":\n";
  expect_refusal(run("runs"), kData, "dataset.json");
}

TEST_F(BadInput, MissingAndTruncatedShards) {
  fs::resize_file(shard("train", 2), fs::file_size(shard("train", 2)) - 1);
  expect_refusal(run("runs"), kData, shard("train", 2).string());
  fs::remove(shard("train", 2));
  expect_refusal(run("runs"), kData, shard("train", 2).string());
}

TEST_F(BadInput, ADamagedRecordStopsTheTrainingUntilItIsRepaired) {
  ASSERT_EQ(run("whole").code, 0);
  for (const std::string split : {"train", "test"}) {
    damage(shard(split, 1), 5000);
    const Ended ended = run("runs");
    expect_refusal(ended, kData, shard(split, 1).string());
    EXPECT_THAT(ended.err, HasSubstr("record"));
    damage(shard(split, 1), 5000);  // inverting the byte again restores it
  }
  ASSERT_EQ(run("runs").code, 0);
  expect_same_training("whole", "runs");
}

TEST_F(BadInput, AnotherNumberOfSamples) {
  expect_refusal(run("runs", {"--set", "data.train.expect_samples=60000"}), kData, "60000");
}

TEST_F(BadInput, ADamagedCheckpoint) {
  leave_unfinished("runs");
  const fs::path file = checkpoint("runs");
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (const int64_t place : {int64_t{100}, size / 2, size - 100}) {
    damage(file, place);
    const Ended ended = run("runs", kOften);
    expect_refusal(ended, kTampered, file.filename().string());
    EXPECT_THAT(ended.err, HasSubstr("remove '" + trial_folder("runs").string() + "'"));
    damage(file, place);
  }
  fs::resize_file(file, static_cast<uintmax_t>(size) / 2);
  expect_refusal(run("runs", kOften), kTampered, file.filename().string());
  fs::remove(file);
  expect_refusal(run("runs", kOften), kTampered, file.filename().string());
  fs::remove_all(trial_folder("runs"));
  EXPECT_EQ(run("runs", kOften).code, 0);
}

TEST_F(BadInput, DamagedRecords) {
  leave_unfinished("runs");
  const fs::path trial = trial_folder("runs");
  damage(trial / "steps.bin", 3);
  expect_refusal(run("runs", kOften), kTampered, "steps.bin");
  damage(trial / "steps.bin", 3);
  std::ofstream(trial / "state.json") << "{\n";
  expect_refusal(run("runs", kOften), kTampered, "state.json");
}

TEST_F(BadInput, AFullDiskLosesNothing) {
  ASSERT_EQ(run("whole").code, 0);
  // Room for every file but the checkpoint, then for none.
  for (const int64_t largest : {40'000, 5'000}) {
    const Ended ended = Process(command("runs", kOften), at(""), largest).wait();
    expect_refusal(ended, kFailed, "File too large");
  }
  const Ended ended = run("runs", kOften);
  ASSERT_EQ(ended.code, 0) << ended.err;
  expect_same_training("whole", "runs");
}

TEST_F(BadInput, AFullDiskInTheMiddleKeepsTheCheckpoint) {
  ASSERT_EQ(run("whole").code, 0);
  leave_unfinished("runs");
  const int64_t step = saved_step("runs");
  expect_refusal(Process(command("runs", kOften), at(""), 40'000).wait(), kFailed,
                 "File too large");
  EXPECT_EQ(saved_step("runs"), step);
  ASSERT_EQ(run("runs", kOften).code, 0);
  expect_same_training("whole", "runs");
}

TEST_F(BadInput, AnUnreadableFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "permissions do not bind root";
  fs::permissions(data_set(), fs::perms::none);
  const Ended ended = run("runs");
  fs::permissions(data_set(), fs::perms::owner_all);
  expect_refusal(ended, kFailed, data_set().string());
}

TEST_F(BadInput, RunsIsAFile) {
  std::ofstream(at("runs")) << "x";
  expect_refusal(run("runs"), kFailed, at("runs").string());
}

TEST_F(BadInput, ALossThatIsNotANumber) {
  const std::vector<std::string> absurd = {"--set", "training.optimizer.lr=1e30"};
  const Ended ended = run("runs", absurd);
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.code, kFailed);
  EXPECT_THAT(ended.err, HasSubstr("the loss is"));
  EXPECT_THAT(ended.err, HasSubstr("Lower the learning rate"));
  // It would fail again: the record says so, without training.
  const Ended again = run("runs", absurd);
  EXPECT_EQ(again.code, kFailed);
  EXPECT_THAT(again.err, HasSubstr("seed 1 failed: "));
}

TEST_F(BadInput, TheRecipe) {
  Ended ended = Process({ASSAY_RECIPE_RUN, "--recipes", std::string(ASSAY_SOURCE_DIR) + "/recipes",
                         "run", "fashion_mnist/nothing"},
                        at(""))
                    .wait();
  expect_refusal(ended, kUsage, "fashion_mnist/nothing");
  const std::pair<std::string, std::string> cases[] = {
      {"training.nothing=1", "training.nothing"},
      {"training.epochs=many", "training.epochs"},
      {"training.epochs=0", "epochs"},
      {"training.batch_per_device=641", "641"},
      {"training.optimizer.name=adamx", "adamx"},
      {"model.arch=nothing", "nothing"},
      {"model.hparam.colour=3", "colour"},
      {"model.hparam.kernel=1000", "kernel"},
      {"model.hparam.conv=[4,", "cnn"},
      {"evaluation.when=never", "never"},
      {"io.workers=100000", "workers"},
      {"data.train.pipeline=", "pipeline"},
  };
  for (const auto& [set, named] : cases) {
    SCOPED_TRACE(set);
    expect_refusal(run("runs", {"--set", set}), kUsage, named);
  }
}

}  // namespace
}  // namespace end_to_end
