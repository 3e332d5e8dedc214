// Record messages as JSON files.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

// Writes atomically, every field present, indented.
void write_json(const fs::path& path, const google::protobuf::Message& message);

// Fails (Exit::kTampered) on text that is not this message, naming the file.
void read_json(const fs::path& path, google::protobuf::Message& message);

}  // namespace reciperun
