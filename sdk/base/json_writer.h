// JSON text on one line, written piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

class JsonWriter {
 public:
  // '{' and '[' open, '}' and ']' close.
  void open(char bracket) { out_ += bracket; }
  void close(char bracket) { out_ += bracket; }
  // Before each element of a list, and by `key` before each key: a comma, unless it is the first.
  void next(char opening);
  void key(std::string_view name);

  void text(std::string_view value);  // bytes that are not UTF-8 become U+FFFD
  void integer(int64_t value);
  void integer(uint64_t value);
  // Shortest digits that read back as the same number; "NaN" and "Infinity" as texts.
  void real(float value);
  void real(double value);
  void boolean(bool value) { out_ += value ? "true" : "false"; }
  void raw(std::string_view json) { out_ += json; }

  std::string take() { return std::move(out_); }

 private:
  template <class T>
  void any_real(T value);
  void character(char c);
  std::string out_;
};

}  // namespace assay
