// Progress of a conversion on stderr: a line redrawn on a terminal, a plain line now and then
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay::tools {

class ProgressBar {
 public:
  // `terminal`: whether stderr is one. `quiet` draws nothing.
  ProgressBar(bool terminal, bool quiet) : terminal_(terminal), quiet_(quiet) {}

  // A new phase starts its own line and its own clock.
  void update(std::string_view phase, int64_t done, int64_t total);
  // Ends the line of the last phase.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(int64_t done, int64_t total, Clock::time_point now);

  bool terminal_, quiet_;
  std::string phase_;
  Clock::time_point start_, last_;
  bool open_ = false;  // the line has no end yet
};

// "1:05" or "1:02:03".
std::string duration_text(double seconds);

}  // namespace assay::tools
