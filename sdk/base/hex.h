// Lower-case hexadecimal digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace assay {

inline constexpr char kHexDigits[] = "0123456789abcdef";

// Two digits a byte.
inline std::string hex_text(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return text;
}

// The last `digits` digits of a number, the highest first.
inline std::string hex_number(uint64_t value, size_t digits) {
  std::string text(digits, '0');
  for (size_t i = digits; i-- > 0; value >>= 4) text[i] = kHexDigits[value & 15];
  return text;
}

}  // namespace assay
