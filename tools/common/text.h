// Text on a terminal: its width, columns, folding, durations, and words that were mistyped.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace assay::tools {

// Columns of the terminal behind `stream`; 80 if it does not say.
int terminal_columns(std::FILE* stream);

// Number of code points of UTF-8 text: the tools write Latin letters and signs of one column each.
int display_width(std::string_view utf8);

// `text` padded with blanks to `width` columns; never cut.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Every line of `text` that is wider than `columns`, broken at blanks. What follows the break
// stands below the beginning of the line's last column (a text behind two blanks or more), if there
// is room.
std::string folded(std::string_view text, int columns);

// "45 s", "3 min 20 s", "2 h 05 min".
std::string duration_text(double seconds);

// The candidate most like `word` if one is close enough to be a typing mistake, else "".
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace assay::tools
