// JSON text into protobuf messages, field by field. Not by protobuf's own parser, which ends the
// process where memory runs out: its text grows in a destructor.
#include "sdk/base/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "sdk/base/error.h"
#include "sdk/base/json_schema.h"

namespace assay {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Type = JsonSchema::Type;

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
  return Type::kObject;
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

void assign_object(const JsonValue& object, Message& message);

// Sets `field`, or adds to it where it is a list.
void assign(const JsonValue& value, Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const auto put = [&](auto set, auto add, const auto& element) {
    (reflection.*(field.is_repeated() ? add : set))(&message, &field, element);
  };
  using R = Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return put(&R::SetBool, &R::AddBool, value.text == "true");
    case FieldDescriptor::CPPTYPE_STRING:
      return put(&R::SetString, &R::AddString, value.text);
    case FieldDescriptor::CPPTYPE_INT32:
      return put(&R::SetInt32, &R::AddInt32, json_number<int32_t>(value));
    case FieldDescriptor::CPPTYPE_INT64:
      return put(&R::SetInt64, &R::AddInt64, json_number<int64_t>(value));
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(&R::SetUInt32, &R::AddUInt32, json_number<uint32_t>(value));
    case FieldDescriptor::CPPTYPE_UINT64:
      return put(&R::SetUInt64, &R::AddUInt64, json_number<uint64_t>(value));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return put(&R::SetFloat, &R::AddFloat, json_number<float>(value));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return put(&R::SetDouble, &R::AddDouble, json_number<double>(value));
    case FieldDescriptor::CPPTYPE_ENUM:
      return put(&R::SetEnum, &R::AddEnum, field.enum_type()->FindValueByName(value.text));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return assign_object(value, field.is_repeated()
                                      ? *reflection.AddMessage(&message, &field)
                                      : *reflection.MutableMessage(&message, &field));
  }
}

// Of an object that has been checked.
void assign_object(const JsonValue& object, Message& message) {
  for (const JsonMember& member : object.members) {
    const FieldDescriptor& field = *message.GetDescriptor()->FindFieldByName(member.key);
    if (!field.is_repeated()) {
      assign(member.value, message, field);
      continue;
    }
    for (const JsonValue& item : member.value.items) assign(item, message, field);
  }
}

}  // namespace

void parse_json(std::string_view text, Message& message, std::string_view what) {
  if (text.empty()) return;
  const JsonSource source{text, what};
  const JsonValue object = parse_json_text(source);
  check_json_schema(object, schema_of(*message.GetDescriptor()), source);
  message.Clear();
  assign_object(object, message);
}

}  // namespace assay
