// What a long run tells on the terminal: one line that is redrawn on a terminal, and plain lines
// now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace assay::tools {

class Progress {
 public:
  // Writes to `stream`; `terminal` chooses the redrawn bar. Neither: `quiet` says nothing but
  // notes.
  Progress(std::FILE* stream, bool terminal, bool quiet = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A new job with its own bar: "seed 1 of 3".
  void begin(const std::string& title);
  // A part of the job with a bar of its own: its evaluation, and the training that goes on after
  // it.
  void phase(const std::string& title);
  // Fraction 0..1 of the job; `detail` is short ("epoch 2/4, loss 0.31"). ETA comes from the time
  // since the job or its part began, counted from the fraction of the first call: a resumed job
  // does not start at 0.
  void update(double fraction, const std::string& detail);
  void end(const std::string& result);

  // A line of its own, above the bar.
  void note(const std::string& line);

 private:
  void draw(double fraction, const std::string& detail);
  void clear_line();

  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  bool terminal_;
  bool quiet_;
  std::string title_;
  bool drawn_ = false;
  double first_fraction_ = -1;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace assay::tools
