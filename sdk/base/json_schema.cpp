#include "sdk/base/json_schema.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "sdk/base/expect.h"

namespace assay {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Struct;
using google::protobuf::Value;

constexpr size_t kLongestExcerpt = 40;

// The value as a person would point at it.
std::string describe(const Value& value) {
  switch (value.kind_case()) {
    case Value::kNumberValue:
      return cat(value.number_value());
    case Value::kStringValue: {
      const std::string& text = value.string_value();
      return text.size() <= kLongestExcerpt ? cat('"', text, '"')
                                            : cat('"', text.substr(0, kLongestExcerpt), "...\"");
    }
    case Value::kBoolValue:
      return cat(value.bool_value());
    case Value::kStructValue:
      return "an object";
    case Value::kListValue:
      return cat("a list of ", value.list_value().values_size());
    default:
      return "null";
  }
}

template <class T>
bool is_text_of(const std::string& text) {
  T parsed{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), parsed);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// 64-bit numbers may come as text, which keeps all their digits.
template <class T>
bool holds_integer(const Value& value) {
  if (value.kind_case() == Value::kStringValue) return is_text_of<T>(value.string_value());
  const double number = value.number_value();
  // The upper limit may have been rounded up to the power of two after it.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return value.kind_case() == Value::kNumberValue && number == std::floor(number) &&
         number >= static_cast<double>(std::numeric_limits<T>::min()) && number <= end;
}

bool holds_number(const Value& value) {
  if (value.kind_case() == Value::kNumberValue) return true;
  if (value.kind_case() != Value::kStringValue) return false;
  const std::string& text = value.string_value();
  return text == "NaN" || text == "Infinity" || text == "-Infinity" || is_text_of<double>(text);
}

// What JSON must hold for one element of a field, in words; and whether `value` does.
struct Fit {
  bool fits;
  std::string expected;
};

Fit enum_fit(const FieldDescriptor& field, const Value& value) {
  std::vector<std::string_view> names;
  bool known = value.kind_case() == Value::kNumberValue;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names.push_back(field.enum_type()->value(i)->name());
    known = known || value.string_value() == names.back();
  }
  return {known, enumerate(names, true)};
}

Fit scalar_fit(const FieldDescriptor& field, const Value& value) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return {value.kind_case() == Value::kBoolValue, "true or false"};
    case FieldDescriptor::CPPTYPE_STRING:
      return {value.kind_case() == Value::kStringValue, "text in quotation marks"};
    case FieldDescriptor::CPPTYPE_INT32:
      return {holds_integer<int32_t>(value), "a whole number of 32 bits"};
    case FieldDescriptor::CPPTYPE_INT64:
      return {holds_integer<int64_t>(value), "a whole number"};
    case FieldDescriptor::CPPTYPE_UINT32:
      return {holds_integer<uint32_t>(value), "a whole number of 32 bits, not negative"};
    case FieldDescriptor::CPPTYPE_UINT64:
      return {holds_integer<uint64_t>(value), "a whole number, not negative"};
    case FieldDescriptor::CPPTYPE_ENUM:
      return enum_fit(field, value);
    default:
      return {holds_number(value), "a number"};
  }
}

class SchemaCheck {
 public:
  explicit SchemaCheck(std::string_view what) : what_(what) {}

  void object(const Struct& object, const Descriptor& schema, const std::string& prefix) const {
    for (const auto& [name, value] : object.fields()) {
      const FieldDescriptor* field = schema.FindFieldByName(name);
      if (field == nullptr) field = schema.FindFieldByCamelcaseName(name);
      if (field == nullptr) unknown(name, schema, prefix);
      if (value.kind_case() == Value::kNullValue) continue;
      const std::string path = prefix + name;
      if (field->is_repeated()) {
        list(value, *field, path);
      } else {
        element(value, *field, path);
      }
    }
  }

 private:
  [[noreturn]] void unknown(const std::string& name, const Descriptor& schema,
                            const std::string& prefix) const {
    std::vector<std::string_view> known;
    for (int i = 0; i < schema.field_count(); ++i) known.push_back(schema.field(i)->name());
    const std::string hint = suggestion(name, known);
    const std::string keys = enumerate(known);
    fail(Code::kInvalid,
         cat(what_, ": there is no key \"", prefix, name, "\"; ", hint, hint.empty() ? "" : " ",
             "known are ", keys),
         {.argument = prefix + name, .expected = keys, .actual = name, .hint = hint});
  }

  void require_fit(bool fits, const Value& value, const std::string& path,
                   const std::string& expected) const {
    expect(fits, {what_, path}, describe(value), expected);
  }

  void list(const Value& value, const FieldDescriptor& field, const std::string& path) const {
    require_fit(value.kind_case() == Value::kListValue, value, path, "a list");
    int index = 0;
    for (const Value& item : value.list_value().values()) {
      element(item, field, cat(path, "[", index++, "]"));
    }
  }

  void element(const Value& value, const FieldDescriptor& field, const std::string& path) const {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      const Fit fit = scalar_fit(field, value);
      return require_fit(fit.fits, value, path, fit.expected);
    }
    if (field.message_type()->file()->package() == "google.protobuf") return;
    require_fit(value.kind_case() == Value::kStructValue, value, path, "an object in braces");
    object(value.struct_value(), *field.message_type(), path + ".");
  }

  std::string_view what_;
};

}  // namespace

void check_json_schema(const Struct& object, const Descriptor& schema, std::string_view what) {
  if (schema.file()->package() == "google.protobuf") return;
  SchemaCheck(what).object(object, schema, "");
}

}  // namespace assay
