// JSON text into protobuf messages. The text is checked against the message's fields first, for
// messages in our words; protobuf's own parser then only fills in what is known to fit.
#include "sdk/base/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include "sdk/base/error.h"
#include "sdk/base/json_schema.h"

namespace assay {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Type = JsonSchema::Type;

// Messages of package google.protobuf take anything.
bool is_free_form(const Descriptor& schema) {
  return schema.file()->package() == "google.protobuf";
}

Type type_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Type::kBool;
    case FieldDescriptor::CPPTYPE_STRING:
      return Type::kText;
    case FieldDescriptor::CPPTYPE_INT32:
      return Type::kInt32;
    case FieldDescriptor::CPPTYPE_INT64:
      return Type::kInt64;
    case FieldDescriptor::CPPTYPE_UINT32:
      return Type::kUint32;
    case FieldDescriptor::CPPTYPE_UINT64:
      return Type::kUint64;
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Type::kFloat;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Type::kDouble;
    case FieldDescriptor::CPPTYPE_ENUM:
      return Type::kEnum;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return is_free_form(*field.message_type()) ? Type::kAnything : Type::kObject;
}

JsonSchema schema_of(const Descriptor& message) {
  JsonSchema schema;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    JsonSchema::Key& key = schema.keys.emplace_back();
    key.name = field.name();
    key.type = type_of(field);
    key.is_list = field.is_repeated();
    if (key.type == Type::kObject)
      key.object = std::make_shared<const JsonSchema>(schema_of(*field.message_type()));
    if (key.type != Type::kEnum) continue;
    for (int j = 0; j < field.enum_type()->value_count(); ++j)
      key.choices.push_back(field.enum_type()->value(j)->name());
  }
  return schema;
}

}  // namespace

void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what) {
  if (text.empty()) return;
  const JsonSource source{text, what};
  const JsonValue object = parse_json_text(source);
  if (is_free_form(*message.GetDescriptor())) {
    check_json_object(object, source);
  } else {
    check_json_schema(object, schema_of(*message.GetDescriptor()), source);
  }
  const google::protobuf::StringPiece piece(text.data(), text.size());
  // What fails after those checks is a difference between them and protobuf's parser: our mistake.
  const auto status = google::protobuf::util::JsonStringToMessage(piece, &message);
  require(status.ok(), Code::kInternal, what, ": ", std::string(status.message()));
}

}  // namespace assay
