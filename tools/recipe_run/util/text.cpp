// Numbers as text, independent of locale and library.
#include "tools/recipe_run/util/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

}  // namespace

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

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > (number < 0 ? 4u : 3u); i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
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

}  // namespace reciperun
