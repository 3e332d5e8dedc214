// The quickstart recipe made small (two epochs of 40 steps): its command line,
// and what it leaves behind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/end_to_end/process.h"

namespace end_to_end {

// To be appended to the command: a checkpoint after every step. Without, there is one at the end.
inline const std::vector<std::string> kOften = {"--set", "training.checkpoint_every_steps=1"};

class SmallRun : public testing::Test {
 protected:
  static constexpr uint32_t kTrain = 640, kTest = 100, kBatch = 16;

  SmallRun();
  ~SmallRun() override;

  // `recipe-run run` of the small recipe, keeping its runs below `runs`; `more` is appended.
  std::vector<std::string> command(const std::string& runs,
                                   const std::vector<std::string>& more = {}) const;
  Ended run(const std::string& runs, const std::vector<std::string>& more = {}) const;

  fs::path at(const std::string& name) const { return folder_ / name; }
  fs::path data_set() const { return folder_ / "data/fashion_mnist"; }

  // The one run below `runs`, and the folder of its one trial; "" before they exist.
  fs::path run_folder(const std::string& runs) const;
  fs::path trial_folder(const std::string& runs) const;

  int64_t saved_step(const std::string& runs) const;   // of the last checkpoint; 0 without
  fs::path checkpoint(const std::string& runs) const;  // the last one
  // Returns when a checkpoint of this step or a later one is there, or the process has ended.
  void wait_for_step(const std::string& runs, int64_t step, Process& process) const;

  // Whether the last checkpoints hold the same tensors and states, bit for bit.
  bool same_checkpoint(const std::string& runs_a, const std::string& runs_b) const;

  // Fails the test unless both finished with the same_checkpoint, the same losses and rates at
  // every step, and the same evaluations.
  void expect_same_training(const std::string& runs_a, const std::string& runs_b) const;

 private:
  fs::path folder_;
};

// Fails the test unless the call ended with `code`, saying one line "recipe-run: ..." that contains
// `part`, and a hint at most.
void expect_refusal(const Ended& ended, int code, const std::string& part);

// Inverts one byte of a file.
void damage(const fs::path& file, int64_t offset);

}  // namespace end_to_end
