// Numbers as files hold them: little-endian, unaligned.
#pragma once

#include <bit>
#include <cstring>
#include <string>

namespace assay {

static_assert(std::endian::native == std::endian::little);

template <class T>
T load_little_endian(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace assay
