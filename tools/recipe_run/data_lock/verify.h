// Is what lies in a folder the data set that was locked?
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/data_lock/lock_file.h"

namespace reciperun {

struct DataCheck {
  std::string form;                   // of what lies there: "RecordIO"
  bool same_files = false;            // byte by byte
  bool same_samples = false;          // decoded; true where the files are the same
  std::vector<std::string> problems;  // one line for each file, split or sample that differs
  std::vector<std::string> notes;     // what does not matter, or could not be told
};

// Files first; only if they differ are the samples decoded and compared, so that the same data in
// another container pass. `lock`: the file, for the lists beside it.
DataCheck verify_data(const fs::path& lock, const data::Entry& entry, const fs::path& folder,
                      const PictureDecoder& decoder, Progress& progress,
                      const std::atomic<bool>& stop);

}  // namespace reciperun
