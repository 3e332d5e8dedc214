// Text as the C interface and files want it: well-formed UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace assay {

// Length of the well-formed character at the front of `text`, which is not empty; 0 if there is
// none. No surrogates, no over-long forms.
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// The text as one readable line of UTF-8: control characters and stray bytes become "\x0A".
std::string printable(std::string_view text);

// In quotation marks, cut short if it is long: for messages that repeat what a caller wrote.
std::string excerpt(std::string_view text);

}  // namespace assay
