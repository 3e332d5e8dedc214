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

// A first look: paths, sizes and a hundredth of the bytes. Whether other files hold the same
// samples it cannot tell: they are a problem. Error kUsage if the entry was locked without what it
// needs.
DataCheck verify_sampled(const data::Entry& entry, const fs::path& folder, Progress& progress,
                         const std::atomic<bool>& stop);

// Files first; only if they differ are the samples decoded and compared, so that the same data in
// another container pass. `lock`: the file, for the lists beside it.
DataCheck verify_data(const fs::path& lock, const data::Entry& entry, const fs::path& folder,
                      const PictureDecoder& decoder, Progress& progress,
                      const std::atomic<bool>& stop);

}  // namespace reciperun
