// Members and their types, with complaints in the words of the file.
#include "sdk/base/json_reader.h"

#include <charconv>

#include "sdk/base/error.h"

namespace assay {
namespace {

using Kind = JsonValue::Kind;

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "true or false";
    case Kind::kNumber:
      return "a number";
    case Kind::kText:
      return "a text";
    case Kind::kList:
      return "a list";
    case Kind::kObject:
      break;
  }
  return "an object";
}

template <class Parse>
JsonValue parse_file(Parse&& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    if (error.code() != Code::kInvalid) throw;
    throw Error(Code::kFormat, error.message(), error.detail());
  }
}

template <class T>
bool is_all_of(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

JsonValue JsonReader::parse() const {
  return parse_file([&] { return parse_json_text(source_); });
}

JsonValue JsonReader::parse_items(const JsonItems& items) const {
  return parse_file([&] { return parse_json_items(source_, items); });
}

void JsonReader::fail_at(size_t offset, std::string_view problem) const {
  fail(Code::kFormat, cat(source_.what, ", ", json_place(source_.text, offset), ": ", problem));
}

const JsonValue* JsonReader::find(const JsonValue& object, std::string_view key) {
  for (const JsonMember& member : object.members)
    if (member.key == key) return &member.value;
  return nullptr;
}

const JsonValue& JsonReader::member(const JsonValue& object, std::string_view key,
                                    Kind kind) const {
  const JsonValue* value = find(object, key);
  if (value == nullptr) fail_at(object, cat("a member \"", key, "\" is missing here"));
  expect_kind(*value, kind, cat('"', key, '"'));
  return *value;
}

int64_t JsonReader::integer(const JsonValue& object, std::string_view key) const {
  return to_integer(member(object, key, Kind::kNumber), cat('"', key, '"'));
}

void JsonReader::expect_kind(const JsonValue& value, Kind kind, std::string_view called) const {
  if (value.kind == kind) return;
  fail_at(value, cat(called, " is of another type: ", kind_name(value.kind), ", expected ",
                     kind_name(kind)));
}

int64_t JsonReader::to_integer(const JsonValue& value, std::string_view called) const {
  expect_kind(value, Kind::kNumber, called);
  int64_t number = 0;
  if (!is_all_of(value.text, number))
    fail_at(value, cat(called, " is ", value.text, ", expected a whole number of 64 bits"));
  return number;
}

double JsonReader::to_real(const JsonValue& value, std::string_view called) const {
  expect_kind(value, Kind::kNumber, called);
  double number = 0;
  // What is too small for any double is 0.
  const char* const end = value.text.data() + value.text.size();
  if (std::from_chars(value.text.data(), end, number).ec != std::errc()) return 0;
  return number;
}

}  // namespace assay
