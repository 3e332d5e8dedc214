// events.jsonl: one JSON object per line, never rewritten.
//
//   {"v":2,"n":4711,"t":1795283812900000000,"m":30412.9,"tr":"seed-0001","rank":0,"ev":"eval","key":"accuracy",
//    "val":0.9341,"unit":"1","at":{"epoch":4,"step":1872,"samples":239616},"x":{"why":"..."},"prev":"9f86d0..."}
//
// n counts lines from 0; t is nanoseconds since 1970, m seconds since the process started. val is a
// number, or "nan", "inf". prev is the SHA-256 of the line before, "" on the first, so that a
// changed, missing or added line breaks the chain; the last line is held by the run's seal
// (seal.h). A torn last line, left by a crash, is dropped on reading and cut off on writing.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

struct EventPlace {
  double epoch = 0;
  int64_t step = 0;
  int64_t samples = 0;
};

struct Event {
  // run, trial, phase, step_block, eval, ckpt, seed, warn, noise, resume or verdict
  std::string kind;
  std::string key;
  double value = 0;
  std::string unit = "1";
  EventPlace at;
  std::map<std::string, std::string> extra;
};

class EventLog {
 public:
  // Continues an existing log after its last whole line. Fails (Exit::kTampered) if its chain is
  // broken.
  EventLog(const fs::path& path, std::string trial);

  void write(const Event& event);
  // As write, and returns once everything is on the disk: for checkpoints, evaluations, ends.
  void write_durably(const Event& event);

 private:
  std::string trial_;
  int64_t next_ = 0;
  std::string hash_;  // of the last line
  AppendFile file_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct EventLogContent {
  std::vector<std::string> lines;  // whole ones
  bool torn_tail = false;
  int64_t whole_bytes = 0;
  std::string problem;  // "" or what is wrong with the numbering or the chain
  std::string hash;     // of the last line
};

// A missing file is an empty log.
EventLogContent read_events(const fs::path& path);

}  // namespace reciperun
