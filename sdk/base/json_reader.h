// What a file's format wants of JSON: members by name, of a type. Complaints say where in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/json_text.h"

namespace assay {

// Everything fails with kFormat: "<what>, line 2, column 14: ...".
class JsonReader {
 public:
  // The text stays where it is.
  explicit JsonReader(const JsonSource& source) : source_(source) {}

  // parse_json_text and parse_json_items: the text is a file's, so mistakes are its format's.
  JsonValue parse() const;
  JsonValue parse_items(const JsonItems& items) const;

  // A byte of the text, or a value that was parsed from it.
  [[noreturn]] void fail_at(size_t offset, std::string_view problem) const;
  [[noreturn]] void fail_at(const JsonValue& value, std::string_view problem) const {
    fail_at(value.offset, problem);
  }

  // Null if there is none.
  static const JsonValue* find(const JsonValue& object, std::string_view key);

  const JsonValue& member(const JsonValue& object, std::string_view key,
                          JsonValue::Kind kind) const;
  const std::vector<JsonValue>& list(const JsonValue& object, std::string_view key) const {
    return member(object, key, JsonValue::Kind::kList).items;
  }
  const std::string& text(const JsonValue& object, std::string_view key) const {
    return member(object, key, JsonValue::Kind::kText).text;
  }
  // A whole number, written without a point and an exponent.
  int64_t integer(const JsonValue& object, std::string_view key) const;

  // Of a value that messages call so.
  void expect_kind(const JsonValue& value, JsonValue::Kind kind, std::string_view called) const;
  int64_t to_integer(const JsonValue& value, std::string_view called) const;
  double to_real(const JsonValue& value, std::string_view called) const;

 private:
  JsonSource source_;
};

}  // namespace assay
