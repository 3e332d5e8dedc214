// to_json: protobuf's JSON mapping, but keys always in the order of the schema. (protobuf prints
// `optional` fields after the others, and objects of free form in the order of a hash table.)
#include <google/protobuf/message.h>

#include "sdk/base/error.h"
#include "sdk/base/json_options.pb.h"
#include "sdk/base/json_writer.h"
#include "sdk/base/proto_json.h"

namespace assay {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Printer {
 public:
  void object(const Message& message) {
    const google::protobuf::Descriptor& schema = *message.GetDescriptor();
    out_.open('{');
    for (int i = 0; i < schema.field_count(); ++i) {
      const FieldDescriptor& field = *schema.field(i);
      if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
      out_.key(field.name());
      if (field.is_repeated()) {
        list(message, field);
      } else {
        element(message, field, kSingular);
      }
    }
    out_.close('}');
  }

  std::string take() { return out_.take(); }

 private:
  static constexpr int kSingular = -1;

  void list(const Message& message, const FieldDescriptor& field) {
    out_.open('[');
    const int size = message.GetReflection()->FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      out_.next('[');
      element(message, field, i);
    }
    out_.close(']');
  }

  // Element `i` of a repeated field, or a field's value.
  void element(const Message& m, const FieldDescriptor& f, int i) {
    const Reflection& r = *m.GetReflection();
    const bool one = i == kSingular;
    switch (f.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return out_.integer(int64_t{one ? r.GetInt32(m, &f) : r.GetRepeatedInt32(m, &f, i)});
      case FieldDescriptor::CPPTYPE_UINT32:
        return out_.integer(uint64_t{one ? r.GetUInt32(m, &f) : r.GetRepeatedUInt32(m, &f, i)});
      // As text: JSON's numbers are doubles to many readers.
      case FieldDescriptor::CPPTYPE_INT64:
        return out_.text(cat(one ? r.GetInt64(m, &f) : r.GetRepeatedInt64(m, &f, i)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return out_.text(cat(one ? r.GetUInt64(m, &f) : r.GetRepeatedUInt64(m, &f, i)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return out_.real(one ? r.GetFloat(m, &f) : r.GetRepeatedFloat(m, &f, i));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return out_.real(one ? r.GetDouble(m, &f) : r.GetRepeatedDouble(m, &f, i));
      case FieldDescriptor::CPPTYPE_BOOL:
        return out_.boolean(one ? r.GetBool(m, &f) : r.GetRepeatedBool(m, &f, i));
      case FieldDescriptor::CPPTYPE_ENUM:
        return out_.text((one ? r.GetEnum(m, &f) : r.GetRepeatedEnum(m, &f, i))->name());
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return object(one ? r.GetMessage(m, &f) : r.GetRepeatedMessage(m, &f, i));
      case FieldDescriptor::CPPTYPE_STRING:
        return string(f, one ? r.GetString(m, &f) : r.GetRepeatedString(m, &f, i));
    }
  }

  void string(const FieldDescriptor& field, const std::string& value) {
    if (field.options().GetExtension(json_text)) {
      out_.raw(value);
    } else {
      out_.text(value);
    }
  }

  JsonWriter out_;
};

}  // namespace

std::string to_json(const Message& message) {
  Printer printer;
  printer.object(message);
  return printer.take();
}

}  // namespace assay
