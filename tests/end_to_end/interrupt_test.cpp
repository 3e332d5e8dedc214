// Ctrl-C, the same command again, and once more when everything is done.
#include <gmock/gmock.h>

#include <csignal>

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

}  // namespace
}  // namespace end_to_end
