// From status codes of the C interface to exits of a program, and from its JSON to values.
#include "tools/common/abi.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <stdexcept>

namespace assay::tools {

namespace {

Exit exit_of(assay_status status, std::string_view argument, Exit caller_fault) {
  switch (status) {
    case ASSAY_E_INVALID:
    case ASSAY_E_UNSUPPORTED:
      return caller_fault;
    case ASSAY_E_NOT_FOUND:
      return argument == "name" ? Exit::kUsage : Exit::kDataMismatch;
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

assay_device_id device_of(const std::string& name) {
  if (name == "cpu") return {ASSAY_DEVICE_CPU, 0};
  const std::string kind = "cuda:";
  const std::string number = name.starts_with(kind) ? name.substr(kind.size()) : "";
  if (number.empty() || number.size() > 4 ||
      number.find_first_not_of("0123456789") != std::string::npos)
    throw Error(Exit::kUsage, "there is no device '" + name + "'", "cpu, or cuda:0");
  return {ASSAY_DEVICE_CUDA, std::stoi(number)};
}

void raise(assay_status status, assay_error* error, Exit caller_fault) {
  const Handle<assay_error, assay_error_free> owned(error);
  assay_error_info info{};
  info.struct_size = sizeof info;
  const bool described = error != nullptr && assay_error_get(error, &info) == ASSAY_OK;
  const std::string message = string(described ? info.message : assay_status_name(status));
  std::string hint = described ? string(info.hint) : "";
  if (message.find(hint) != std::string::npos) hint.clear();  // said already
  if (status == ASSAY_E_NONFINITE) throw Failed(message, hint);
  if (status == ASSAY_E_OOM_DEVICE) throw TooLarge(message, hint);
  throw Error(exit_of(status, described ? string(info.argument) : "", caller_fault), message, hint);
}

google::protobuf::Struct parse(const Report& report) { return parse(json(report)); }

google::protobuf::Struct parse(const std::string& json) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &parsed);
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
