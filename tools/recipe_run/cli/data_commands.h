// `recipe-run data lock|verify`.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/cli/commands.h"

namespace reciperun {

struct DataArguments {
  std::vector<std::string> names;  // of data sets; empty: all of the lock (lock: needed)
  std::string data = "data";       // folder of the data sets
  std::string folder;              // of the one data set named, if it lies elsewhere
  std::string lock;                // file; "" = data.lock beside the recipes
  bool quiet = false;
};

// Computes the digests of the named data sets and writes them into data.lock.
int data_lock_command(const fs::path& root, const DataArguments& arguments,
                      const DriverFactory& make_driver);
// Compares data sets with data.lock; returns kDataMismatch if anything differs.
int data_verify_command(const fs::path& root, const DataArguments& arguments,
                        const DriverFactory& make_driver);

}  // namespace reciperun
