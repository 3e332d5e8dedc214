// Record messages as JSON files.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

// Every field present, indented.
std::string json_text(const google::protobuf::Message& message);

// The same on one line.
std::string json_line(const google::protobuf::Message& message);

// Writes it atomically.
void write_json(const fs::path& path, const google::protobuf::Message& message);

// Fails (Exit::kTampered) on text that is not this message, naming the file.
void read_json(const fs::path& path, google::protobuf::Message& message);

}  // namespace reciperun
