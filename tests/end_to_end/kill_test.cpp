// Killed at any moment, a training goes on as if nothing had happened.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr int kKills = 20;
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
  void watch(Process& process, int64_t steps, microseconds delay, bool while_saving) const {
    wait_for_step("killed", saved_step("killed") + steps, process);
    const auto end = steady_clock::now() + delay;
    while (process.running() && steady_clock::now() < end) std::this_thread::yield();
    while (while_saving && process.running() && unfinished_files(trial_folder("killed")) == 0)
      std::this_thread::yield();
  }

  // The log of one trial: whole lines, with a "resume" for every restart.
  void expect_valid_events(int restarts) const {
    std::ifstream events(trial_folder("killed") / "events.jsonl");
    int resumed = 0;
    for (std::string line; std::getline(events, line);) {
      EXPECT_TRUE(line.starts_with('{') && line.ends_with('}')) << line;
      resumed += line.find(R"("kind":"resume")") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(resumed, 0);
    EXPECT_LE(resumed, restarts);
  }
};

TEST_F(Kill, AtRandomMomentsEqualsTheUninterruptedRun) {
  ASSERT_EQ(run("whole", {"--set", "training.epochs=4"}).code, 0);
  std::mt19937 random(20261121);
  int kills = 0, while_saving = 0;
  while (kills < kKills) {
    Process process(command("killed", kLonger), at(""));
    // Every fourth dies at its start, wherever that is; the others some checkpoints later, half of
    // them with a temporary file on the disk.
    const int64_t steps = kills % 4 == 0 ? 0 : static_cast<int64_t>(random() % 5);
    watch(process, steps, microseconds(random() % (steps == 0 ? 60000 : 15000)), kills % 2 == 1);
    if (!process.running()) break;
    process.signal(SIGKILL);
    ASSERT_EQ(process.wait().signal, SIGKILL);
    ++kills;
    if (unfinished_files(trial_folder("killed")) > 0) ++while_saving;
  }
  EXPECT_GE(kills, 15) << "the training ended too early for a meaningful test";
  EXPECT_GE(while_saving, 3) << "too few kills met a file being written";
  RecordProperty("kills", kills);
  RecordProperty("kills_while_writing", while_saving);
  const Ended last = run("killed", kLonger);
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_training("whole", "killed");
  expect_valid_events(kills + 1);
  EXPECT_EQ(unfinished_files(trial_folder("killed")), 0) << "left by a killed process";
}

}  // namespace
}  // namespace end_to_end
