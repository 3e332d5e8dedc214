// Kinds of characters, lower case and accents: utf8proc's tables, and the one rule of Python's
// lower case that they do not hold, the final sigma.
#include "sdk/data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "sdk/base/error.h"

namespace assay::data {
namespace {

struct Range {
  char32_t first, last;
};

bool in_any(std::span<const Range> ranges, char32_t character) {
  return std::ranges::any_of(
      ranges, [&](const Range& r) { return character >= r.first && character <= r.last; });
}

bool is_ideograph(char32_t character) {
  static constexpr Range kIdeographs[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return character >= 0x3400 && in_any(kIdeographs, character);
}

CharacterKind kind_of_category(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return CharacterKind::kRemoved;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterKind::kBlank;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharacterKind::kPunctuation;
    default:
      return CharacterKind::kWord;
  }
}

constexpr CharacterKind ascii_kind(char32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return CharacterKind::kBlank;
  if (c < 0x20 || c == 0x7F) return CharacterKind::kRemoved;
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const bool digit = c >= '0' && c <= '9';
  return letter || digit ? CharacterKind::kWord : CharacterKind::kPunctuation;
}

constexpr auto kAsciiKinds = [] {
  std::array<CharacterKind, 128> kinds{};
  for (char32_t c = 0; c < 128; ++c) kinds[c] = ascii_kind(c);
  return kinds;
}();

// Of the rule of the final sigma (Unicode standard, chapter 3.13): letters, and what has case
// without being one.
bool is_cased(char32_t character) {
  static constexpr Range kOthers[] = {{0x00AA, 0x00AA},  {0x00BA, 0x00BA},   {0x2160, 0x217F},
                                      {0x24B6, 0x24E9},  {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
                                      {0x1F170, 0x1F189}};
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || in_any(kOthers, character);
}

// Marks, modifiers and the punctuation that stands inside words.
bool is_case_ignorable(char32_t character) {
  static constexpr char32_t kInsideWords[] = {0x0027, 0x002E, 0x003A, 0x00B7, 0x0387, 0x055F,
                                              0x05F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                              0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::ranges::find(kInsideWords, character) != std::end(kInsideWords);
  }
}

constexpr char32_t kCapitalSigma = 0x03A3, kSmallSigma = 0x03C3, kFinalSigma = 0x03C2;

// Whether the capital sigma at `at` ends a word: something with case before it, nothing after it.
bool ends_word(const std::vector<char32_t>& word, size_t at) {
  const auto before = std::find_if_not(std::make_reverse_iterator(word.begin() + at), word.rend(),
                                       is_case_ignorable);
  if (before == word.rend() || !is_cased(*before)) return false;
  const auto after = std::find_if_not(word.begin() + at + 1, word.end(), is_case_ignorable);
  return after == word.end() || !is_cased(*after);
}

int combining_class(char32_t character) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

// The canonical order of marks behind one letter: by class, equal ones as they stood.
void sort_marks(std::vector<char32_t>& text) {
  const auto is_mark = [](char32_t c) { return combining_class(c) != 0; };
  for (auto i = text.begin(); i != text.end();) {
    const auto first = std::find_if(i, text.end(), is_mark);
    i = std::find_if_not(first, text.end(), is_mark);
    std::ranges::stable_sort(first, i, {}, combining_class);
  }
}

}  // namespace

CharacterKind character_kind(char32_t character) {
  if (character < 128) return kAsciiKinds[character];
  if (character == 0xFFFD) return CharacterKind::kRemoved;
  if (is_ideograph(character)) return CharacterKind::kIdeograph;
  return kind_of_category(character);
}

char32_t decode_utf8(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  constexpr std::array<char32_t, 5> kLeadBits{0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t character = byte(0) & kLeadBits[length];
  for (size_t i = 1; i < length; ++i) character = character << 6 | (byte(i) & 0x3F);
  return character;
}

void append_utf8(std::string& text, char32_t character) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(bytes.begin(), bytes.begin() + length);
}

std::vector<char32_t> lower_case(const std::vector<char32_t>& text) {
  std::vector<char32_t> lower;
  lower.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kCapitalSigma) {
      lower.push_back(ends_word(text, i) ? kFinalSigma : kSmallSigma);
    } else if (text[i] == 0x0130) {  // I with a dot above: the only one with two small characters
      lower.insert(lower.end(), {U'i', 0x0307});
    } else {
      lower.push_back(
          static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[i]))));
    }
  }
  return lower;
}

std::vector<char32_t> without_case_and_accents(const std::vector<char32_t>& text) {
  std::vector<char32_t> decomposed;
  std::array<utf8proc_int32_t, 8> parts;
  for (const char32_t c : lower_case(text)) {
    int boundary = 0;  // of grapheme clusters, which nobody asks for
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                               parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    if (count < 0 || static_cast<size_t>(count) > parts.size())
      fail(Code::kInternal, cat("utf8proc: ", utf8proc_errmsg(count)));
    decomposed.insert(decomposed.end(), parts.begin(), parts.begin() + count);
  }
  sort_marks(decomposed);
  std::erase_if(decomposed, [](char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN;
  });
  return decomposed;
}

bool is_word_character(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool number = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
  return letter || number || character == U'_';
}

bool is_white_space(char32_t character) {
  if (character < 128)
    return character == ' ' || (character >= 0x09 && character <= 0x0D) ||
           (character >= 0x1C && character <= 0x1F);
  return character == 0x85 || kind_of_category(character) == CharacterKind::kBlank;
}

std::string_view unicode_version() { return utf8proc_unicode_version(); }

}  // namespace assay::data
