#include "tools/recipe_run/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace reciperun {
namespace {

// Digits and decimal exponent of the shortest form: value = 0.d1d2d3... * 10^exponent.
std::pair<std::string, int> shortest_digits(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  int exponent = 0;
  const char* from = buffer + e + 1;
  if (*from == '+') ++from;
  std::from_chars(from, end, exponent);
  return {digits, exponent + 1};
}

// One code point from the front of `text` (at least one byte is consumed); 0xFFFD for malformed
// bytes.
char32_t take_code_point(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 1 || length == 0 || text.size() < length) {
    text.remove_prefix(1);
    return length == 1 ? lead : 0xFFFD;
  }
  char32_t code = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      text.remove_prefix(1);
      return 0xFFFD;
    }
    code = code << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(length);
  return code;
}

bool in_ranges(char32_t c, std::initializer_list<std::pair<char32_t, char32_t>> ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const auto& r) { return c >= r.first && c <= r.second; });
}

int code_point_width(char32_t c) {
  if (in_ranges(c, {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}))
    return 0;
  if (in_ranges(c, {{0x1100, 0x115F},
                    {0x2E80, 0x303E},
                    {0x3041, 0xA4CF},
                    {0xAC00, 0xD7A3},
                    {0xF900, 0xFAFF},
                    {0xFE30, 0xFE6F},
                    {0xFF00, 0xFF60},
                    {0xFFE0, 0xFFE6},
                    {0x1F300, 0x1F64F},
                    {0x1F900, 0x1F9FF},
                    {0x20000, 0x3FFFD}})) {
    return 2;
  }
  return 1;
}

std::string with_minus_sign(std::string text) {
  if (!text.empty() && text[0] == '-') text.replace(0, 1, "\u2212");
  return text;
}

std::string plain_fixed(double value, int decimals) {
  char buffer[400];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals).ptr;
  std::string text(buffer, end);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text[0] == '-' ? text.substr(1) : text;  // no "-0.00"
}

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

std::string shortest(double value) {
  if (value == 0) return "0";
  if (value < 0) return "-" + shortest(-value);
  const auto [digits, point] = shortest_digits(value);
  const int count = static_cast<int>(digits.size());
  if (count <= point && point <= 21)
    return digits + std::string(static_cast<size_t>(point - count), '0');
  if (0 < point && point <= 21) {
    return digits.substr(0, static_cast<size_t>(point)) + "." +
           digits.substr(static_cast<size_t>(point));
  }
  if (-6 < point && point <= 0)
    return "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  const int exponent = point - 1;
  const std::string mantissa = count == 1 ? digits : digits.substr(0, 1) + "." + digits.substr(1);
  return mantissa + (exponent < 0 ? "e-" : "e+") + std::to_string(std::abs(exponent));
}

std::string fixed(double value, int decimals) {
  return std::isfinite(value) ? with_minus_sign(plain_fixed(value, decimals))
         : std::isnan(value)  ? "nan"
                              : with_minus_sign(value < 0 ? "-inf" : "inf");
}

std::string signed_fixed(double value, int decimals) {
  const std::string text = fixed(value, decimals);
  return value > 0 && text.find_first_not_of("0.") != std::string::npos ? "+" + text : text;
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return fixed(value, 0);
  const int magnitude = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  std::string text = plain_fixed(value, std::max(0, digits - 1 - magnitude));
  const size_t start = text[0] == '-' ? 1 : 0;
  const size_t point = std::min(text.find('.'), text.size());
  for (size_t i = point; i > start + 3; i -= 3) text.insert(i - 3, ",");
  return with_minus_sign(text);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 60) return plain_fixed(seconds, seconds < 10 ? 1 : 0) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const auto two = [](int64_t v) { return (v < 10 ? "0" : "") + std::to_string(v); };
  if (whole < 3600) return std::to_string(whole / 60) + " min " + two(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two(whole % 3600 / 60) + " min";
}

int display_width(std::string_view utf8) {
  int width = 0;
  while (!utf8.empty()) width += code_point_width(take_code_point(utf8));
  return width;
}

std::string pad_right(std::string_view text, int width) {
  return std::string(text) +
         std::string(static_cast<size_t>(std::max(0, width - display_width(text))), ' ');
}

std::string pad_left(std::string_view text, int width) {
  return std::string(static_cast<size_t>(std::max(0, width - display_width(text))), ' ') +
         std::string(text);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t at = text.find(separator, from);
    parts.emplace_back(text.substr(from, at - from));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
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

}  // namespace reciperun
