#include "sdk/base/proto_json.h"

#include <google/protobuf/util/json_util.h>

#include "sdk/base/expect.h"
#include "sdk/base/json_schema.h"

namespace assay {
namespace {

void refuse_empty(const JsonValue& object, std::string_view key, std::string_view what) {
  for (const JsonMember& member : object.members) {
    const JsonValue& value = member.value;
    expect(member.key != key || value.kind != JsonValue::Kind::kList || !value.items.empty(),
           {what, key}, "[]", "a list that is not empty, or none for the default");
  }
}

}  // namespace

void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what,
                std::initializer_list<std::string_view> not_empty) {
  if (text.empty()) return;
  const JsonSource source{text, what};
  const JsonValue object = parse_json_text(source);
  check_json_schema(object, *message.GetDescriptor(), source);
  for (const std::string_view key : not_empty) refuse_empty(object, key, what);
  const google::protobuf::StringPiece piece(text.data(), text.size());
  const auto status = google::protobuf::util::JsonStringToMessage(piece, &message);
  require(status.ok(), Code::kInternal, what, ": ", std::string(status.message()));
}

}  // namespace assay
