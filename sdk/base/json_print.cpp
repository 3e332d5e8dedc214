// to_json: protobuf's JSON mapping, but keys always in the order of the schema. (protobuf prints
// `optional` fields after the others, and objects of free form in the order of a hash table.)
#include <google/protobuf/message.h>

#include <cmath>

#include "sdk/base/error.h"
#include "sdk/base/json_options.pb.h"
#include "sdk/base/proto_json.h"
#include "sdk/base/utf8.h"

namespace assay {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, for bytes that are not UTF-8

class Printer {
 public:
  void object(const Message& message) {
    const google::protobuf::Descriptor& schema = *message.GetDescriptor();
    out_ += '{';
    for (int i = 0; i < schema.field_count(); ++i) {
      const FieldDescriptor& field = *schema.field(i);
      if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
      separate('{');
      text(field.name());
      out_ += ':';
      if (field.is_repeated()) {
        list(message, field);
      } else {
        element(message, field, kSingular);
      }
    }
    out_ += '}';
  }

  std::string take() { return std::move(out_); }

 private:
  static constexpr int kSingular = -1;

  // A comma, unless nothing stands before it.
  void separate(char opening) {
    if (out_.back() != opening) out_ += ',';
  }

  void list(const Message& message, const FieldDescriptor& field) {
    out_ += '[';
    const int size = message.GetReflection()->FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      separate('[');
      element(message, field, i);
    }
    out_ += ']';
  }

  // Element `i` of a repeated field, or a field's value.
  void element(const Message& m, const FieldDescriptor& f, int i) {
    const Reflection& r = *m.GetReflection();
    const bool one = i == kSingular;
    switch (f.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return number(one ? r.GetInt32(m, &f) : r.GetRepeatedInt32(m, &f, i));
      case FieldDescriptor::CPPTYPE_UINT32:
        return number(one ? r.GetUInt32(m, &f) : r.GetRepeatedUInt32(m, &f, i));
      // As text: JSON's numbers are doubles to many readers.
      case FieldDescriptor::CPPTYPE_INT64:
        return text(cat(one ? r.GetInt64(m, &f) : r.GetRepeatedInt64(m, &f, i)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return text(cat(one ? r.GetUInt64(m, &f) : r.GetRepeatedUInt64(m, &f, i)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return real(one ? r.GetFloat(m, &f) : r.GetRepeatedFloat(m, &f, i));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return real(one ? r.GetDouble(m, &f) : r.GetRepeatedDouble(m, &f, i));
      case FieldDescriptor::CPPTYPE_BOOL:
        return number(one ? r.GetBool(m, &f) : r.GetRepeatedBool(m, &f, i));
      case FieldDescriptor::CPPTYPE_ENUM:
        return text((one ? r.GetEnum(m, &f) : r.GetRepeatedEnum(m, &f, i))->name());
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return object(one ? r.GetMessage(m, &f) : r.GetRepeatedMessage(m, &f, i));
      case FieldDescriptor::CPPTYPE_STRING:
        return string(f, one ? r.GetString(m, &f) : r.GetRepeatedString(m, &f, i));
    }
  }

  void string(const FieldDescriptor& field, const std::string& value) {
    if (field.options().GetExtension(json_text)) {
      out_ += value;
    } else {
      text(value);
    }
  }

  template <class T>
  void number(T value) {
    out_ += cat(value);
  }

  template <class T>
  void real(T value) {
    constexpr double kExact = 9007199254740992;  // 2^53
    if (std::isnan(value)) return text("NaN");
    if (std::isinf(value)) return text(value > 0 ? "Infinity" : "-Infinity");
    const bool whole = value == std::floor(value) && std::abs(value) < kExact;
    if (value == 0 && std::signbit(value)) {
      out_ += "-0.0";
    } else if (whole) {
      number(static_cast<int64_t>(value));
    } else {
      number(value);
    }
  }

  void text(std::string_view value) {
    out_ += '"';
    while (!value.empty()) {
      const size_t length = utf8_length(value);
      if (length == 1) {
        character(value.front());
      } else {
        out_ += length == 0 ? kReplacement : value.substr(0, length);
      }
      value.remove_prefix(std::max<size_t>(length, 1));
    }
    out_ += '"';
  }

  void character(char c) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    if (c == '"' || c == '\\') {
      out_ += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out_ += {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
    } else {
      out_ += c;
    }
  }

  std::string out_;
};

}  // namespace

std::string to_json(const Message& message) {
  Printer printer;
  printer.object(message);
  return printer.take();
}

}  // namespace assay
