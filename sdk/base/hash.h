// A small stable hash of names: the result is part of what makes a run reproducible, so it never
// changes.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// 64-bit FNV-1a.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace assay
