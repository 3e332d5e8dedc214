// What the tokenizer asks of Unicode, on utf8proc: its version is the library's, and decides which
// characters are unassigned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::data {

enum class CharacterKind : uint8_t {
  kWord,
  kBlank,        // space, tab, LF, CR, line and paragraph separators, category Zs
  kRemoved,      // U+0000, U+FFFD, category C (control, format, unassigned, ...)
  kPunctuation,  // ASCII that is no letter, digit or blank; category P
  kIdeograph     // of Chinese, Japanese and Korean: a word of its own
};
CharacterKind character_kind(char32_t character);

// The character that the first `length` bytes of `text` are, where utf8_length(text) is `length`.
char32_t decode_utf8(std::string_view text, size_t length);
void append_utf8(std::string& text, char32_t character);

// As Python's str.lower gives it, with the final sigma.
std::vector<char32_t> lower_case(const std::vector<char32_t>& text);
// Lower case, then NFD without marks of category Mn: "É" gives "e".
std::vector<char32_t> without_case_and_accents(const std::vector<char32_t>& text);

// As Python's regular expressions see words (\w), and str.split blanks.
bool is_word_character(char32_t character);
bool is_white_space(char32_t character);

// The version of Unicode that utf8proc knows: "15.0.0".
std::string_view unicode_version();

}  // namespace assay::data
