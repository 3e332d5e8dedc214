// Pieces of JSON text: escapes, and numbers in the fewest digits that read back as they were.
#include "sdk/base/json_writer.h"

#include <algorithm>
#include <cmath>

#include "sdk/base/error.h"
#include "sdk/base/hex.h"
#include "sdk/base/utf8.h"

namespace assay {

void JsonWriter::next(char opening) {
  // A container that has just been opened ends in its bracket; any element ends in something else.
  if (out_.back() != opening) out_ += ',';
}

void JsonWriter::key(std::string_view name) {
  next('{');
  text(name);
  out_ += ':';
}

void JsonWriter::text(std::string_view value) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  out_ += '"';
  while (!value.empty()) {
    const size_t length = utf8_length(value);
    if (length == 1) {
      character(value.front());
    } else {
      out_ += length == 0 ? kReplacement : value.substr(0, length);
    }
    value.remove_prefix(std::max<size_t>(length, 1));
  }
  out_ += '"';
}

void JsonWriter::character(char c) {
  if (c == '"' || c == '\\') {
    out_ += {'\\', c};
  } else if (static_cast<unsigned char>(c) < 0x20) {
    out_ += {'\\', 'u', '0', '0', kHexDigits[c >> 4], kHexDigits[c & 15]};
  } else {
    out_ += c;
  }
}

void JsonWriter::integer(int64_t value) { out_ += cat(value); }
void JsonWriter::integer(uint64_t value) { out_ += cat(value); }

// Whole numbers below 2^53 are written without fraction or exponent; -0.0 keeps its sign.
template <class T>
void JsonWriter::any_real(T value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::isnan(value)) return text("NaN");
  if (std::isinf(value)) return text(value > 0 ? "Infinity" : "-Infinity");
  const bool whole = value == std::floor(value) && std::abs(value) < kExact;
  if (value == 0 && std::signbit(value)) {
    out_ += "-0.0";
  } else if (whole) {
    integer(static_cast<int64_t>(value));
  } else {
    out_ += cat(value);
  }
}

void JsonWriter::real(float value) { any_real(value); }
void JsonWriter::real(double value) { any_real(value); }

}  // namespace assay
