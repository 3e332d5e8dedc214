#include "sdk/base/proto_json.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "sdk/base/error.h"

namespace assay {

void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what) {
  if (text.empty()) return;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &message);
  if (status.ok()) return;
  // protobuf answers with three lines: the mistake, the text around it, a mark below the place.
  std::string mistake(status.message());
  mistake.resize(std::min(mistake.size(), mistake.rfind('\n')));
  std::replace(mistake.begin(), mistake.end(), '\n', ' ');
  fail(Code::kInvalid, cat(what, ": ", mistake));
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
