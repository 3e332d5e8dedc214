// Columns are counted by code points, words compared by edit distance.
#include "tools/common/text.h"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace assay::tools {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

constexpr int kLeastRoom = 24;  // columns that a folded text needs to be read at ease
constexpr int kHang = 4;        // below a line whose last column leaves less

// Where the folded rest of a line begins: below its last column, behind its bullet.
int hang_of(std::string_view line, int columns) {
  size_t start = line.find_first_not_of(' ');
  for (size_t i = start; i + 2 < line.size(); ++i) {
    const bool begins = line[i] != ' ' && line.substr(i + 1, 2) == "  ";
    const size_t next = begins ? line.find_first_not_of(' ', i + 1) : std::string_view::npos;
    if (next != std::string_view::npos && display_width(line.substr(0, next)) < columns)
      start = next;
  }
  int hang = display_width(line.substr(0, start));
  for (const std::string_view bullet : {"↳ ", "· "}) {
    if (line.substr(start).starts_with(bullet)) hang += display_width(bullet);
  }
  return columns - hang >= kLeastRoom ? hang : kHang;
}

std::string folded_line(std::string_view line, int columns) {
  if (display_width(line) <= columns) return std::string(line);
  const std::string indent(static_cast<size_t>(hang_of(line, columns)), ' ');
  std::string out;
  std::string current;
  for (size_t at = 0; at < line.size();) {
    size_t word = line.find_first_not_of(' ', at);
    if (word == std::string_view::npos) break;
    const size_t end = std::min(line.find(' ', word), line.size());
    const bool empty = current.find_first_not_of(' ') == std::string::npos;
    const std::string more = current + std::string(line.substr(at, end - at));
    if (empty || display_width(more) <= columns) {
      current = more;
    } else {
      out += current + "\n";
      current = indent + std::string(line.substr(word, end - word));
    }
    at = end;
  }
  return out + current;
}

}  // namespace

int terminal_columns(std::FILE* stream) {
  winsize size = {};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int display_width(std::string_view utf8) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<int>(std::count_if(utf8.begin(), utf8.end(), begins));
}

std::string pad_right(std::string_view text, int width) {
  return fmt::format("{}{:{}}", text, "", std::max(0, width - display_width(text)));
}

std::string pad_left(std::string_view text, int width) {
  return fmt::format("{:{}}{}", "", std::max(0, width - display_width(text)), text);
}

std::string folded(std::string_view text, int columns) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out += folded_line(text.substr(0, end), columns);
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace assay::tools
