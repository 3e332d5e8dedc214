// events.jsonl: what happened in a trial, one JSON object (record::Event) per line, never
// rewritten. A torn last line, left by a crash, is cut off before the next line is written.
#pragma once

#include <chrono>
#include <string>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/run_record/run_record.pb.h"

namespace reciperun {

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
