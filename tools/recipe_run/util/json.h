// JSON: protobuf messages as files and text, read strictly, and objects written by hand where a
// message would not do: for digests, which must not change with the version of protobuf, and for
// the engine's configurations, whose keys are not ours.
#pragma once

#include <google/protobuf/message.h>

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "tools/recipe_run/util/file.h"

namespace reciperun {

// Every field present, indented.
std::string json_text(const google::protobuf::Message& message);
// The same on one line.
std::string json_line(const google::protobuf::Message& message);
// Writes it atomically.
void write_json(const fs::path& path, const google::protobuf::Message& message);

// Reads JSON by the letter of RFC 8259: protobuf's own parser takes single quotes, trailing commas
// and keys without quotation marks, too. "" or what is wrong with the text, and where.
std::string parse_json(const std::string& text, google::protobuf::Message& message);
// Fails (Exit::kTampered) on text that is not this message, naming the file.
void read_json(const fs::path& path, google::protobuf::Message& message);

// One value. Numbers take their shortest round-trip form; NaN and infinity become the strings
// "nan", "inf", "-inf", and integers beyond 2^53 strings, so that every reader sees the exact
// value.
std::string json_of(std::string_view text);
std::string json_of(double number);
std::string json_of(int64_t number);
std::string json_of(uint64_t number);
inline std::string json_of(const std::string& text) { return json_of(std::string_view(text)); }
inline std::string json_of(const char* text) { return json_of(std::string_view(text)); }
template <std::same_as<bool> T>
std::string json_of(T flag) {
  return flag ? "true" : "false";
}
template <std::integral T>
requires(!std::same_as<T, bool>) std::string json_of(T number) {
  if constexpr (std::is_signed_v<T>) {
    return json_of(static_cast<int64_t>(number));
  } else {
    return json_of(static_cast<uint64_t>(number));
  }
}
template <class T>
std::string json_of(const std::vector<T>& list) {
  std::string out;
  for (const T& item : list) out += (out.empty() ? "" : ",") + json_of(item);
  return "[" + out + "]";
}

// An object, field by field in the order of the calls, on one line.
class JsonObject {
 public:
  template <class T>
  JsonObject& field(std::string_view name, const T& value) {
    return raw(name, json_of(value));
  }
  // `json` is the text of a value.
  JsonObject& raw(std::string_view name, std::string_view json);
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

}  // namespace reciperun
