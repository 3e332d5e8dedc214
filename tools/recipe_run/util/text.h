// Numbers as text, lists as text; columns and folding are those of all tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/text.h"

namespace reciperun {

using assay::tools::closest;
using assay::tools::display_width;
using assay::tools::duration_text;
using assay::tools::folded;
using assay::tools::pad_left;
using assay::tools::pad_right;

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

std::string with_commas(int64_t number);  // "1,127"

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace reciperun
