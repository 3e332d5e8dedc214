// A hundredth of a file, spread over all of it: enough to notice a file that was cut, swapped or
// filled with zeros, without reading the data set.
#pragma once

#include <string>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

// SHA-256 over one block of 4 KiB of every 400 KiB, at places which the file's name in the data set
// and nothing else decides; of a file smaller than a block over all of it.
std::string sampled_sha256(const fs::path& file, const std::string& name, uint64_t bytes);

}  // namespace reciperun
