#include "sdk/train/checkpoint/tensor_layout.h"

#include <algorithm>

#include "sdk/base/utf8.h"

namespace assay::checkpoint {

std::optional<uint64_t> tensor_bytes(std::span<const int64_t> dims, DType dtype) {
  uint64_t bytes = dtype_size(dtype);
  bool valid = bytes != 0, empty = false;
  for (const int64_t size : dims) {
    empty = empty || size == 0;
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(size, 1));
    valid = valid && size >= 0 && !__builtin_mul_overflow(bytes, factor, &bytes);
  }
  if (!valid || bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return empty ? 0 : bytes;
}

bool is_tensor_name(std::string_view name) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  return !name.empty() && name.size() <= 1024 && is_utf8(name) &&
         std::none_of(name.begin(), name.end(), is_control);
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
