// Builds JSON text piece by piece, in the order of the calls; the caller keeps objects and arrays
// balanced. Numbers take their shortest round-trip form, NaN and infinity become the strings "nan",
// "inf", "-inf", and integers beyond 2^53 become strings, so that every reader sees the exact
// value.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reciperun {

class JsonWriter {
 public:
  // indent 0 writes one line.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& null() { return raw("null"); }
  template <std::same_as<bool> T>
  JsonWriter& value(T flag) {
    return raw(flag ? "true" : "false");
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) {
    constexpr auto kExact = int64_t{1} << 53;
    const bool exact =
        std::cmp_less_equal(number, kExact) && std::cmp_greater_equal(number, -kExact);
    return exact ? raw(std::to_string(number)) : value(std::string_view(std::to_string(number)));
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& list) {
    begin_array();
    for (const T& item : list) value(item);
    return end_array();
  }
  // Text that is already JSON.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  const std::string& text() const { return out_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void before_item();
  void new_line();

  int indent_;
  int depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
  std::string out_;
};

}  // namespace reciperun
