#include "tools/common/abi.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

namespace assay::tools {

Exit Failure::exit_code() const {
  switch (status_) {
    case ASSAY_E_INVALID:
      return kUsage;
    case ASSAY_E_NOT_FOUND:
      return argument_ == "name" ? kUsage : kFiles;  // an unknown name is no missing file
    case ASSAY_E_IO:
    case ASSAY_E_FORMAT:
    case ASSAY_E_VERSION:
    case ASSAY_E_BUSY:
      return kFiles;
    case ASSAY_E_CANCELLED:
      return kInterrupted;
    default:
      return kFailed;
  }
}

void check(assay_status status, assay_error* error) {
  if (status == ASSAY_OK) return;
  const std::unique_ptr<assay_error, void (*)(assay_error*)> owned(error, assay_error_free);
  assay_error_info info{};
  info.struct_size = sizeof info;
  const bool described = assay_error_get(error, &info) == ASSAY_OK;
  throw Failure(status, string(described ? info.message : assay_status_name(status)),
                string(info.argument));
}

google::protobuf::Struct parse(const Report& report) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(json(report), &parsed);
  if (!status.ok()) throw std::logic_error("a report is not JSON: " + status.ToString());
  return parsed;
}

bool has(const google::protobuf::Struct& object, const std::string& key) {
  return object.fields().contains(key);
}

const google::protobuf::Value& at(const google::protobuf::Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  if (found == object.fields().end()) throw std::logic_error("a report has no \"" + key + "\"");
  return found->second;
}

std::string text_of(const google::protobuf::Struct& object, const std::string& key) {
  const google::protobuf::Value& value = at(object, key);
  switch (value.kind_case()) {
    case google::protobuf::Value::kStringValue:
      return value.string_value();
    case google::protobuf::Value::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case google::protobuf::Value::kNumberValue:
      return value.number_value() == std::floor(value.number_value())
                 ? fmt::format("{:.0f}", value.number_value())
                 : fmt::format("{:g}", value.number_value());
    default:
      return "";
  }
}

}  // namespace assay::tools
