#include "sdk/base/proto_json.h"

#include <google/protobuf/util/json_util.h>

#include "sdk/base/error.h"
#include "sdk/base/json_schema.h"

namespace assay {

void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what) {
  if (text.empty()) return;
  const JsonSource source{text, what};
  check_json_schema(parse_json_text(source), *message.GetDescriptor(), source);
  const google::protobuf::StringPiece piece(text.data(), text.size());
  const auto status = google::protobuf::util::JsonStringToMessage(piece, &message);
  require(status.ok(), Code::kInternal, what, ": ", std::string(status.message()));
}

std::string to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  require(status.ok(), Code::kInternal, "cannot print ", message.GetTypeName(),
          " as JSON: ", std::string(status.message()));
  return text;
}

}  // namespace assay
