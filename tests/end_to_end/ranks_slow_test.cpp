// A training of two ranks, of which one is killed or stopped two hundred times: each time all end
// by themselves, no checkpoint is half there, and in the end the bits are those of an undisturbed
// one.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/end_to_end/ranks_run.h"

namespace end_to_end {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// ASSAY_DISTURBANCES: fewer, where there is no time for all.
int disturbances() {
  const char* const asked = std::getenv("ASSAY_DISTURBANCES");
  return asked == nullptr ? 200 : std::atoi(asked);
}

class DisturbedRanks : public Ranks {
 protected:
  const std::vector<std::string> longer_ =
      with(kOften, {"--set", "training.epochs=24", "--rank-timeout", "3"});

  // Waits for a random moment: every fourth time in the first second, wherever that is, else some
  // checkpoints later.
  void wait_for_a_moment(Process& process, int count) {
    if (count % 4 == 0) return std::this_thread::sleep_for(microseconds(random_() % 1'000'000));
    wait_for_step("disturbed", saved_step("disturbed") + 1 + static_cast<int64_t>(random_() % 4),
                  process);
    std::this_thread::sleep_for(microseconds(random_() % 20'000));
  }

  // The exit code; 0 where the training was over first.
  int disturb(int count) {
    Process process(ranks(2, "disturbed", longer_), at(""));
    wait_for_a_moment(process, count);
    const std::string rank = std::to_string(random_() % 2);
    const int number = random_() % 3 == 0 ? SIGSTOP : SIGKILL;
    while (process.running() && !signal_rank("disturbed", rank, number))
      std::this_thread::sleep_for(milliseconds(1));
    const Ended ended = process.wait();  // a wait for ever would end in a signal
    EXPECT_EQ(ended.signal, 0) << "disturbance " << count << ", signal " << number << " to rank "
                               << rank << ": nobody noticed\n"
                               << ended.err;
    EXPECT_TRUE(processes("disturbed", "0").empty() && processes("disturbed", "1").empty());
    return ended.code;
  }

  std::mt19937 random_{1400};
};

TEST_F(DisturbedRanks, LoseNothing) {
  ASSERT_EQ(run("emulated", with(with(kTwoDevices, kOften),
                                 {"--set", "training.epochs=24", "--emulate-devices", "2"}))
                .code,
            0);
  int count = 0, over = 0;
  for (; count < disturbances() && !HasFailure(); ++count) {
    if (disturb(count) != 0) continue;
    expect_same_training("emulated", "disturbed");
    fs::remove_all(at("disturbed"));  // and once more from the beginning
    ++over;
  }
  RecordProperty("disturbances", count);
  RecordProperty("trainings", over);
  const Ended last = run_ranks("disturbed", longer_);
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_training("emulated", "disturbed");
}

}  // namespace
}  // namespace end_to_end
