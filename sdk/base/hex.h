// Bytes as lower-case hexadecimal digits, two each.
#pragma once

#include <span>
#include <string>

namespace assay {

inline constexpr char kHexDigits[] = "0123456789abcdef";

inline std::string hex_text(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return text;
}

}  // namespace assay
