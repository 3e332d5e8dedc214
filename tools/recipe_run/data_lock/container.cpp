#include "tools/recipe_run/data_lock/container.h"

#include "tools/recipe_run/base/error.h"

namespace reciperun {

std::unique_ptr<Container> open_container(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(Exit::kUsage, "there is no folder '" + folder.string() + "'",
                "name the folder of the data sets with --data DIR");
  }
  for (const auto open : {open_record_files, open_recordio, open_image_folders}) {
    if (auto container = open(folder)) return container;
  }
  throw Error(Exit::kUsage, "'" + folder.string() + "' holds no data set",
              "it needs a dataset.json with record files, <split>.rec files, or images in "
              "<split>/<class>/");
}

}  // namespace reciperun
