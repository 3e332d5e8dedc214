// The pictures a run left behind, for the HTML report.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

struct TrialPicture {
  std::string trial;  // "seed-0001"
  std::string name;   // of the file
  std::string png;    // its bytes
  size_t others = 0;  // further pictures in the same folder
};

// The first picture of each trial below `run`, in the order of the trials.
std::vector<TrialPicture> trial_pictures(const fs::path& run);

// A section with the pictures in it; "" without any.
std::string pictures_section(const std::vector<TrialPicture>& pictures);

}  // namespace reciperun
