#include "tools/dataset_convert/progress_bar.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace assay::tools {
namespace {

constexpr int kBarWidth = 28;
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLine{10};

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

void ProgressBar::update(std::string_view phase, int64_t done, int64_t total) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (phase != phase_) {
    finish();
    phase_ = phase;
    start_ = last_ = now;
    if (terminal_) draw(done, total, now);
    return;
  }
  const bool due =
      now - last_ >= (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kPlainLine));
  if (!due && done < total) return;
  last_ = now;
  draw(done, total, now);
}

void ProgressBar::draw(int64_t done, int64_t total, Clock::time_point now) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::string when = done >= total ? "in " + duration_text(elapsed)
                           : share > 0   ? "ETA " + duration_text(elapsed / share - elapsed)
                                         : "ETA ?";
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  const std::string numbers =
      fmt::format("{:3.0f} %  {} of {}  {:.0f}/s  {}", 100 * share, done, total, rate, when);
  if (terminal_) {
    const int filled = static_cast<int>(share * kBarWidth);
    fmt::print(stderr, "\r{:<14} [{:=<{}}{:{}}] {}\x1b[K", phase_, "", filled, "",
               kBarWidth - filled, numbers);
    open_ = true;
  } else {
    fmt::print(stderr, "{}: {}\n", phase_, numbers);
  }
  std::fflush(stderr);
}

void ProgressBar::finish() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace assay::tools
