// Ctrl-C, the same command again, and once more when everything is done; the same command on other
// data.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "tests/end_to_end/data_set.h"
#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using testing::HasSubstr;
using Interrupt = SmallRun;

// Long enough that the signal meets it while training.
const std::vector<std::string> kLonger = {"--set", "training.epochs=8", "--set",
                                          "training.checkpoint_every_steps=10"};

TEST_F(Interrupt, TheSameCommandContinuesAndThenOnlyReports) {
  ASSERT_EQ(run("whole", {"--set", "training.epochs=8"}).code, 0);
  for (const int number : {SIGINT, SIGTERM}) {
    Process process(command("stopped", kLonger), at(""));
    wait_for_step("stopped", saved_step("stopped") + 20, process);
    process.signal(number);
    const Ended stopped = process.wait();
    expect_refusal(stopped, 75, "stopped ");  // in a step, or while evaluating
    EXPECT_THAT(stopped.err, HasSubstr("run the same command again"));
  }
  const Ended finished = run("stopped", kLonger);
  ASSERT_EQ(finished.code, 0) << finished.err;
  expect_same_training("whole", "stopped");

  const fs::path trial = trial_folder("stopped");
  const auto written = fs::last_write_time(trial / "metrics.json");
  const auto logged = fs::file_size(trial / "events.jsonl");
  const Ended again = run("stopped", kLonger);
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, finished.out);  // the report is a function of the record
  EXPECT_EQ(trial_folder("stopped"), trial);
  EXPECT_EQ(fs::last_write_time(trial / "metrics.json"), written);
  EXPECT_EQ(fs::file_size(trial / "events.jsonl"), logged);
}

TEST_F(Interrupt, OnOtherDataTheSameCommandIsAnotherRun) {
  const std::vector<std::string> any_size = {"--set", "data.test.expect_samples=0"};
  ASSERT_EQ(run("runs", any_size).code, 0);
  fs::remove_all(data_set());
  make_data_set(at("data"), kTrain, kTest + 1);
  std::vector<std::string> loud = command("runs", any_size);
  std::erase(loud, "--quiet");
  const Ended other = Process(loud, at("")).wait();
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("is of this recipe, but of other data"));
  const auto runs = std::count_if(
      fs::directory_iterator(at("runs")), fs::directory_iterator(),
      [](const fs::directory_entry& entry) { return fs::exists(entry.path() / "run.json"); });
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace end_to_end
