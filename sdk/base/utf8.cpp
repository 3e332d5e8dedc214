// UTF-8: which bytes form a character, and text made fit for one line of a message.
#include "sdk/base/utf8.h"

namespace assay {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

void append_escape(std::string& line, char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  line += "\\x";
  line += kDigits[value >> 4];
  line += kDigits[value & 15];
}

}  // namespace

// The table is that of the Unicode standard, chapter 3.9.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0 || is_control(text.front())) {
      append_escape(line, text.front());
      text.remove_prefix(1);
    } else {
      line += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return line;
}

std::string excerpt(std::string_view text) {
  constexpr size_t kLongest = 40;
  size_t kept = text.size() <= kLongest ? text.size() : kLongest;
  // Not in the middle of a character.
  while (kept < text.size() && kept > 0 && (text[kept] & 0xC0) == 0x80) --kept;
  return '"' + printable(text.substr(0, kept)) + (kept < text.size() ? "...\"" : "\"");
}

}  // namespace assay
