// Killed at any moment, a training goes on as if nothing had happened. ASSAY_KILLS=1000 in the
// environment asks for at least so many kills, in as many trainings as that takes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr int kKillsOfATraining = 20;
// Long enough for all of them.
const std::vector<std::string> kLonger = {"--set", "training.epochs=4", "--set",
                                          "training.checkpoint_every_steps=1"};

// Files under a temporary name are being written, or were when their writer died.
int64_t unfinished_files(const fs::path& folder) {
  std::error_code ignored;
  const fs::directory_iterator all(folder, ignored);
  return std::count_if(begin(all), end(all), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().find(".tmp") != std::string::npos;
  });
}

class Kill : public SmallRun {
 protected:
  // Lets the process get `steps` checkpoints further, and `delay` more. While saving, it stops
  // waiting at the first temporary file it sees after that.
  void watch(const std::string& runs, Process& process, int64_t steps, microseconds delay,
             bool while_saving) const {
    wait_for_step(runs, saved_step(runs) + steps, process);
    const auto end = steady_clock::now() + delay;
    while (process.running() && steady_clock::now() < end) std::this_thread::yield();
    while (while_saving && process.running() && unfinished_files(trial_folder(runs)) == 0)
      std::this_thread::yield();
  }

  // Kills a training again and again, then lets it end.
  void kill_and_compare(const std::string& runs) {
    int kills = 0;
    while (kills < kKillsOfATraining) {
      Process process(command(runs, kLonger), at(""));
      // Every fourth dies at its start, wherever that is; the others some checkpoints later, half
      // of them with a temporary file on the disk.
      const int64_t steps = kills % 4 == 0 ? 0 : static_cast<int64_t>(random_() % 5);
      watch(runs, process, steps, microseconds(random_() % (steps == 0 ? 60000 : 15000)),
            kills % 2 == 1);
      if (!process.running()) break;
      process.signal(SIGKILL);
      ASSERT_EQ(process.wait().signal, SIGKILL);
      ++kills;
      if (unfinished_files(trial_folder(runs)) > 0) ++while_saving_;
    }
    const Ended last = run(runs, kLonger);
    ASSERT_EQ(last.code, 0) << last.err;
    expect_same_training("whole", runs);
    expect_valid_events(runs, kills + 1);
    EXPECT_EQ(unfinished_files(trial_folder(runs)), 0) << "left by a killed process";
    kills_ += kills;
  }

  // The log of one trial: whole lines, with a "resume" for every restart.
  void expect_valid_events(const std::string& runs, int restarts) const {
    std::ifstream events(trial_folder(runs) / "events.jsonl");
    int resumed = 0;
    for (std::string line; std::getline(events, line);) {
      EXPECT_TRUE(line.starts_with('{') && line.ends_with('}')) << line;
      resumed += line.find(R"("kind":"resume")") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(resumed, 0);
    EXPECT_LE(resumed, restarts);
  }

  std::mt19937 random_{20261121};
  int kills_ = 0, while_saving_ = 0;
};

TEST_F(Kill, AtRandomMomentsEqualsTheUninterruptedRun) {
  const char* const asked = std::getenv("ASSAY_KILLS");
  const int wanted = asked == nullptr ? kKillsOfATraining : std::atoi(asked);
  ASSERT_EQ(run("whole", {"--set", "training.epochs=4"}).code, 0);
  for (int training = 0; kills_ < wanted && !HasFailure(); ++training) {
    const int before = kills_;
    kill_and_compare("killed" + std::to_string(training));
    ASSERT_GT(kills_, before) << "the training ended too early for a meaningful test";
  }
  EXPECT_GE(kills_, std::min(wanted, 15)) << "the training ended too early for a meaningful test";
  EXPECT_GE(while_saving_, 3) << "too few kills met a file being written";
  RecordProperty("kills", kills_);
  RecordProperty("kills_while_writing", while_saving_);
  std::printf("%d kills, %d of them while a file was being written\n", kills_, while_saving_);
}

}  // namespace
}  // namespace end_to_end
