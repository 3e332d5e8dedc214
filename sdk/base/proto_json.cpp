#include "sdk/base/proto_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/json_schema.h"

namespace assay {
namespace {

using google::protobuf::util::JsonStringToMessage;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// protobuf answers with three lines: the mistake, the text around it, a mark below the place. We
// take the place.
[[noreturn]] void fail_malformed(const std::string& answer, std::string_view what) {
  const std::vector<std::string> lines = lines_of(answer);
  std::string place;
  if (lines.size() >= 3) {
    const size_t column = std::min(lines.back().find('^'), lines[lines.size() - 2].size());
    const std::string& around = lines[lines.size() - 2];
    place = column == around.size() ? cat(" after ", around)
                                    : cat(" at '", around.substr(column, 20), "', after '",
                                          around.substr(0, column), "'");
  }
  fail(Code::kInvalid,
       cat(what, ": the text is not well-formed JSON", place,
           "; expected one object in braces, keys and texts in quotation marks, "
           "commas between"),
       {.expected = "a JSON object"});
}

}  // namespace

void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what) {
  if (text.empty()) return;
  const google::protobuf::StringPiece piece(text.data(), text.size());
  google::protobuf::Struct object;
  if (const auto status = JsonStringToMessage(piece, &object); !status.ok()) {
    fail_malformed(std::string(status.message()), what);
  }
  check_json_schema(object, *message.GetDescriptor(), what);
  require(JsonStringToMessage(piece, &message).ok(), Code::kInvalid, what,
          ": a key occurs twice, or a number is beyond the range of its key");
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
