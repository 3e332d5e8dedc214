// The pictures a run left behind, for the HTML report.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/run_record/measurements.h"

namespace reciperun {

struct TrialPicture {
  std::string folder;  // of the trial: "seed-0001"
  std::string trial;   // for people: "seed 1", "fold 1 of 5, seed 0"
  std::string name;    // of the file
  std::string png;     // its bytes
  size_t others = 0;   // further pictures in the same folder
};

// The first picture of each of the trials of the run in `folder`.
std::vector<TrialPicture> trial_pictures(const fs::path& folder, const std::vector<Trial>& trials);

// A section with the pictures in it; "" without any.
std::string pictures_section(const std::vector<TrialPicture>& pictures);

}  // namespace reciperun
