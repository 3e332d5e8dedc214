// steps.bin: one row of numbers per step, little-endian doubles behind a 16-byte header
// ("RRSTEP01", number of columns, zero). A torn last row is ignored.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

// Columns of a trial's log; a bench's log has only the seconds.
enum TrialColumn : size_t { kStep, kEpoch, kLoss, kLearningRate, kSeconds, kTrialColumns };

class StepLog {
 public:
  // Opens for appending. Rows whose first column is above `keep_up_to` are dropped: they were
  // written after the checkpoint that is being resumed.
  StepLog(const fs::path& path, uint32_t columns, double keep_up_to);

  void append(std::span<const double> row);  // buffered
  void flush();                              // to the operating system
  void sync();                               // to the disk

 private:
  uint32_t columns_;
  AppendFile file_;
  std::string pending_;
};

// Rows of `columns` numbers. A missing file has none; another magic or another number of columns
// fails (Exit::kTampered).
std::vector<std::vector<double>> read_steps(const fs::path& path, uint32_t columns);

// events.jsonl: what happened in a trial, one JSON object (record::Event) per line, never
// rewritten. A torn last line, left by a crash, is cut off before the next line is written.

class EventLog {
 public:
  // Continues an existing log after its last whole line.
  explicit EventLog(const fs::path& path);

  // Adds the times to the event and writes it.
  void write(record::Event event);
  // As write, and returns once everything is on the disk: for checkpoints, evaluations, ends.
  void write_durably(record::Event event);

 private:
  AppendFile file_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace reciperun
