#include "tools/recipe_run/data_lock/sampled.h"

#include <algorithm>
#include <fstream>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"

namespace reciperun {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kStratum = 100 * kBlock;

// A number below `bound` for this stratum of this file.
uint64_t place_in(const std::string& name, uint64_t stratum, uint64_t bound) {
  const std::string digest = sha256_hex(name + '\n' + std::to_string(stratum));
  return std::stoull(digest.substr(0, 15), nullptr, 16) % bound;
}

}  // namespace

std::string sampled_sha256(const fs::path& file, const std::string& name, uint64_t bytes) {
  std::ifstream in(file, std::ios::binary);
  std::string sample;
  for (uint64_t begin = 0; begin < bytes; begin += kStratum) {
    const uint64_t length = std::min(kStratum, bytes - begin);
    const uint64_t block = std::min(kBlock, length);
    const uint64_t at = begin + place_in(name, begin / kStratum, length - block + 1);
    const size_t old = sample.size();
    sample.resize(old + block);
    in.seekg(static_cast<std::streamoff>(at));
    in.read(sample.data() + old, static_cast<std::streamsize>(block));
  }
  if (!in) throw Error(Exit::kDataMismatch, "cannot read '" + file.string() + "'");
  return sha256_hex(sample);
}

}  // namespace reciperun
