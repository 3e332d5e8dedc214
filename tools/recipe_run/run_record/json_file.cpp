#include "tools/recipe_run/run_record/json_file.h"

#include <google/protobuf/util/json_util.h>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"

namespace reciperun {

namespace pb = google::protobuf;

namespace {

std::string printed(const pb::Message& message, bool indented) {
  pb::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = pb::util::MessageToJsonString(message, &text, options);
  if (!status.ok())
    throw Error(Exit::kCrashed, message.GetTypeName() + " has no JSON form: " + status.ToString());
  return text;
}

}  // namespace

std::string json_text(const pb::Message& message) { return printed(message, true); }
std::string json_line(const pb::Message& message) { return printed(message, false); }

void write_json(const fs::path& path, const pb::Message& message) {
  write_file_atomic(path, json_text(message));
}

void read_json(const fs::path& path, pb::Message& message) {
  const std::string problem = parse_json(read_file(path), message);
  if (problem.empty()) return;
  throw Error(Exit::kTampered, "'" + path.string() + "' is damaged: " + problem,
              "move the run's folder away and run again");
}

}  // namespace reciperun
