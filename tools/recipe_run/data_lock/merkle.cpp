#include "tools/recipe_run/data_lock/merkle.h"

#include "tools/recipe_run/base/sha256.h"

namespace reciperun {
namespace {

constexpr char kLeaf = 0, kPair = 1;

}  // namespace

std::string merkle_root(const std::vector<std::string>& leaves) {
  if (leaves.empty()) return sha256_hex("");
  std::vector<std::string> level;
  level.reserve(leaves.size());
  for (const std::string& leaf : leaves) level.push_back(sha256_hex(kLeaf + leaf));
  while (level.size() > 1) {
    std::vector<std::string> above;
    above.reserve((level.size() + 1) / 2);
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      above.push_back(sha256_hex(kPair + level[i] + level[i + 1]));
    if (level.size() % 2 == 1) above.push_back(level.back());
    level = std::move(above);
  }
  return level[0];
}

}  // namespace reciperun
