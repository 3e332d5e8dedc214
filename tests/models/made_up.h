// Numbers that a test and the script of its fixture make up alike, so that the file holds results
// only.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/hash.h"

namespace assay::test {

// In [-1, 1), by name and place: make_unet_full.made_up.
inline std::vector<float> made_up(std::string_view name, int64_t count, float scale = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  const auto base = static_cast<uint32_t>(hash_name(name));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + base;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    values[i] = (static_cast<float>(x >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

// Results by their names: lines of a name and a number.
inline std::map<std::string, double> results_of(const std::string& fixture) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR) + "/tests/fixtures/models/" + fixture);
  std::map<std::string, double> values;
  std::string name;
  for (double value = 0; file >> name >> value;) values[name] = value;
  return values;
}

}  // namespace assay::test
