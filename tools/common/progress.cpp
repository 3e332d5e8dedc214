// One line of the terminal, redrawn at most ten times a second.
#include "tools/common/progress.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/common/text.h"

namespace assay::tools {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainLineSeconds = 15;
constexpr int kBarCells = 24;

std::string bar(double fraction) {
  // Eighths of a cell, so that a slow job is seen to move.
  static constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(fraction * kBarCells * 8);
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kParts[eighths % 8];
  return pad_right(out, kBarCells);
}

}  // namespace

Progress::Progress(std::FILE* stream, bool terminal, bool quiet)
    : stream_(stream), terminal_(terminal), quiet_(quiet) {}

Progress::~Progress() { clear_line(); }

void Progress::clear_line() {
  if (drawn_) std::fputs("\r\033[K", stream_);
  drawn_ = false;
}

void Progress::begin(const std::string& title) {
  phase(title);
  last_ = start_ - std::chrono::hours(1);
}

void Progress::phase(const std::string& title) {
  title_ = title;
  first_fraction_ = -1;
  start_ = Clock::now();
}

void Progress::update(double fraction, const std::string& detail) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (first_fraction_ < 0) first_fraction_ = fraction;
  const double since = std::chrono::duration<double>(now - last_).count();
  if (since < (terminal_ ? kRedrawSeconds : kPlainLineSeconds)) return;
  last_ = now;
  draw(std::clamp(fraction, 0.0, 1.0), detail);
}

void Progress::draw(double fraction, const std::string& detail) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double done = fraction - first_fraction_;
  const std::string left =
      done > 0.005 && elapsed > 1
          ? fmt::format("  {} left", duration_text(elapsed * (1 - fraction) / done))
          : "";
  const std::string percent = fmt::format("{:3} %", static_cast<int>(100 * fraction));
  const std::string text =
      fmt::format("{}{}{}{}", percent, detail.empty() ? "" : "  ", detail, left);
  if (!terminal_) {
    fmt::print(stream_, "{}: {}\n", title_, text);
    std::fflush(stream_);
    return;
  }
  std::string line = fmt::format("{} {} {}", title_, bar(fraction), text);
  if (display_width(line) >= terminal_columns(stream_))
    line = fmt::format("{} {}{}", title_, percent, left);
  fmt::print(stream_, "\r\033[K{}", line);
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::end(const std::string& result) { note(title_ + ": " + result); }

void Progress::note(const std::string& line) {
  clear_line();
  const std::string text = terminal_ ? folded(line, terminal_columns(stream_)) : line;
  fmt::print(stream_, "{}\n", text);
  std::fflush(stream_);
}

}  // namespace assay::tools
