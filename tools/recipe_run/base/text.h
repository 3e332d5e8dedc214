// Text helpers shared by the loader and the reports: numbers, columns, name suggestions, durations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reciperun {

// Shortest decimal form that reads back to the same double, laid out as RFC 8785 (ECMAScript) does:
// "0.1", "1e+21", "1e-7". Not for NaN or infinity.
std::string shortest(double value);

// `value` with exactly `decimals` digits after the point, and a true minus sign (U+2212) for
// negative numbers.
std::string fixed(double value, int decimals);
// The same with a leading "+" for positive numbers.
std::string signed_fixed(double value, int decimals);

// `value` with about `digits` significant digits and thousands separators: 12,345 · 1,234.5 ·
// 0.01235.
std::string significant(double value, int digits = 4);

// "45 s", "3 min 20 s", "2 h 05 min".
std::string duration_text(double seconds);

// Number of terminal columns of UTF-8 text: combining marks take none, East Asian wide characters
// two. Malformed bytes count one each.
int display_width(std::string_view utf8);

// `text` padded with blanks to `width` columns; never cut.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Every line of `text` that is wider than `columns`, broken at blanks. What follows the break
// stands below the beginning of the line's last column (a text behind two blanks or more), if there
// is room.
std::string folded(std::string_view text, int columns);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

// The candidate most like `word` if one is close enough to be a typing mistake, else "".
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace reciperun
