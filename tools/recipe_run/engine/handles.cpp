#include "tools/recipe_run/engine/handles.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdlib>

namespace reciperun {

void raise(assay_status status, assay_error* error, Exit kind) {
  assay_error_info info = {};
  info.struct_size = sizeof info;
  std::string message = "the engine failed: " + text(assay_status_name(status));
  std::string hint;
  if (error != nullptr && assay_error_get(error, &info) == ASSAY_OK) {
    message = text(info.message);
    hint = text(info.hint);
  }
  assay_error_free(error);
  throw Error(status == ASSAY_E_CANCELLED ? Exit::kInterrupted : kind, message, hint);
}

google::protobuf::Struct parsed(const assay_report* report) {
  google::protobuf::Struct object;
  const auto status =
      google::protobuf::util::JsonStringToMessage(text(assay_report_text(report)), &object);
  if (!status.ok())
    throw Error(Exit::kCrashed, "the engine's report is not JSON: " + status.ToString());
  return object;
}

int64_t whole(const google::protobuf::Struct& object, const std::string& key) {
  const auto it = object.fields().find(key);
  if (it == object.fields().end()) return 0;
  // Reports print large counters as text.
  if (it->second.has_string_value()) return std::atoll(it->second.string_value().c_str());
  return std::llround(it->second.number_value());
}

}  // namespace reciperun
