#include "tools/recipe_run/engine/handles.h"

#include <google/protobuf/util/json_util.h>

namespace reciperun::engine {
namespace {

Exit exit_of(assay_status status, Exit caller_fault) {
  switch (status) {
    case ASSAY_E_INVALID:
    case ASSAY_E_UNSUPPORTED:
      return caller_fault;
    case ASSAY_E_NOT_FOUND:
    case ASSAY_E_FORMAT:
    case ASSAY_E_VERSION:
      return Exit::kDataMismatch;
    case ASSAY_E_CANCELLED:
      return Exit::kInterrupted;
    default:
      return Exit::kCrashed;
  }
}

}  // namespace

void raise(assay_status status, assay_error* error, Exit caller_fault) {
  std::string message = string(assay_status_name(status));
  std::string hint;
  assay_error_info info{};
  info.struct_size = sizeof info;
  if (error != nullptr && assay_error_get(error, &info) == ASSAY_OK) {
    message = string(info.message);
    hint = string(info.hint);
  }
  assay_error_free(error);
  if (status == ASSAY_E_NONFINITE || status == ASSAY_E_OOM_DEVICE) throw Failed(message, hint);
  throw Error(exit_of(status, caller_fault), message, hint);
}

google::protobuf::Struct parse_report(const assay_report* report) {
  google::protobuf::Struct object;
  const assay_str json = assay_report_text(report);
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data, json.size), &object);
  if (!status.ok())
    throw Error(Exit::kCrashed,
                "the engine's report is not JSON: " + std::string(status.message()));
  return object;
}

}  // namespace reciperun::engine
