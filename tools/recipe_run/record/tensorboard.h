// tensorboard/: event files for TensorBoard, which shows a training while it goes on. Nothing here
// reads them. Each part of a training, from its start or a checkpoint to where it ends or is
// stopped, has a file of its own.
#pragma once

#include <map>
#include <string>

#include "tools/recipe_run/record/tensorboard.pb.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

class TensorBoardLog {
 public:
  // Continues after `step`: what earlier files say of later ones is shown no more. `part` tells
  // files of one second apart.
  TensorBoardLog(const fs::path& folder, int64_t step, uint32_t part);

  void write(int64_t step, const std::map<std::string, double>& values);
  // The PNG files of a folder, by their names; nothing if there is none.
  void write_pictures(int64_t step, const fs::path& folder);

 private:
  void append(tensorboard::Event event);

  AppendFile file_;
};

}  // namespace reciperun
