#include "sdk/train/checkpoint/tensor_layout.h"

#include <algorithm>

namespace assay::checkpoint {
namespace {

// Length of the well-formed character at the front of `text`, which is not empty; 0 if there is
// none. The table is that of the Unicode standard, chapter 3.9.
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

}  // namespace

std::optional<uint64_t> tensor_bytes(std::span<const int64_t> dims, DType dtype) {
  uint64_t bytes = dtype_size(dtype);
  bool valid = bytes != 0;
  for (const int64_t size : dims) {
    valid =
        valid && size >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  if (!valid || bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return bytes;
}

bool is_utf8(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) return false;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_tensor_name(std::string_view name) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  return !name.empty() && is_utf8(name, 1024) && std::none_of(name.begin(), name.end(), is_control);
}

bool is_entry_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (name.empty() || name.size() > 256) return false;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (part.find_first_not_of(kAllowed) != std::string_view::npos) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace assay::checkpoint
