// What crosses the border by value: texts and structs that state their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "assay/assay.h"
#include "capi/src/guard.h"
#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"

namespace assay::capi {

inline assay_str to_str(std::string_view text) { return {text.data(), text.size()}; }

inline std::string_view to_text(assay_str text, std::string_view argument) {
  expect(text.data != nullptr || text.size == 0, {"", argument}, "NULL", "data, for its size is ",
         text.size);
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

// A path of a file or folder, for the system.
inline std::string checked_path(assay_str path, std::string_view argument,
                                std::string_view kind = "a path") {
  const std::string_view name = to_text(path, argument);
  expect(!name.empty(), {"", argument}, "empty", kind);
  expect(name.find('\0') == std::string_view::npos, {"", argument}, excerpt(name), kind,
         " without zero bytes");
  return std::string(name);
}

// struct_size and next stand at the front of every struct, at the same places.
inline constexpr size_t kStructHead = sizeof(size_t) + sizeof(const assay_ext*);
// Larger sizes are taken for a field that was never set.
inline constexpr size_t kLargestStruct = size_t{1} << 16;

inline void check_head(size_t struct_size, const assay_ext* next, std::string_view argument) {
  if (struct_size < kStructHead || struct_size > kLargestStruct) [[unlikely]]
    fail_mismatch(Code::kInvalid, {cat(argument, "->struct_size"), std::string(argument),
                                   cat(struct_size), "sizeof the struct"});
  require(next == nullptr, Code::kVersion, argument, "->next holds extension ",
          next == nullptr ? 0 : next->id, ", which this version does not know");
}

// A copy of the caller's struct: fields that the caller does not know are zero, fields that are not
// known here must be. NULL is all defaults.
template <class S>
S read_struct(const S* in, std::string_view argument) {
  S copy{};
  copy.struct_size = sizeof(S);
  if (in == nullptr) return copy;
  check_head(in->struct_size, in->next, argument);
  const auto* bytes = reinterpret_cast<const std::byte*>(in);
  for (size_t i = sizeof(S); i < in->struct_size; ++i) {
    require(bytes[i] == std::byte{0}, Code::kVersion, argument, " is of a newer header (",
            in->struct_size, " bytes, ", sizeof(S), " known here) and not zero at offset ", i);
  }
  std::memcpy(&copy, in, std::min(in->struct_size, sizeof(S)));
  return copy;
}

// Fails now rather than after the work is done; NULL is fine where the output is optional.
template <class S>
void check_output(const S* out, std::string_view argument) {
  if (out != nullptr) check_head(out->struct_size, out->next, argument);
}

// Fills the caller's struct up to the caller's size; what is beyond `value` becomes zero.
template <class S>
void write_struct(S* out, std::string_view argument, const S& value) {
  const size_t size = not_null(out, argument).struct_size;
  check_head(size, out->next, argument);
  auto* target = reinterpret_cast<std::byte*>(out);
  std::memset(target + kStructHead, 0, size - kStructHead);
  std::memcpy(target + kStructHead, reinterpret_cast<const std::byte*>(&value) + kStructHead,
              std::min(size, sizeof(S)) - kStructHead);
}

}  // namespace assay::capi
