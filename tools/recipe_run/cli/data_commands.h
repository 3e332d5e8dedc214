// `recipe-run data lock|verify|show`.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/data_lock/sample.h"

namespace reciperun {

struct DataArguments {
  std::vector<std::string> names;  // of data sets; empty: all of the lock (lock: needed)
  std::string data = "data";       // folder of the data sets
  std::string folder;              // of the one data set named, if it lies elsewhere
  std::string lock;                // file; "" = data.lock beside the recipes
  bool fast = false;
  bool quiet = false;
};

int data_lock_command(const fs::path& root, const DataArguments& arguments,
                      const PictureDecoder& decoder);
// kDataMismatch if anything differs.
int data_verify_command(const fs::path& root, const DataArguments& arguments,
                        const PictureDecoder& decoder);
int data_show_command(const fs::path& root, const DataArguments& arguments);

}  // namespace reciperun
