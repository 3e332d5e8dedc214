#include "tools/recipe_run/recipe/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <set>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/recipe/parser_words.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;
using Places = pb::TextFormat::ParseInfoTree;

constexpr size_t kMaxBytes = 1 << 20;  // the largest recipe has about 300 expectations of 400 bytes
constexpr int kMaxDepth = 32;

[[noreturn]] void fail_at(const std::string& file, int line, int column, const std::string& what,
                          const std::string& hint = {}) {
  throw Error(
      Exit::kUsage,
      file + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + what, hint);
}

class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  void AddWarning(int line, pb::io::ColumnNumber column, const std::string& message) override {
    AddError(line, column, message);
  }
  [[noreturn]] void raise(const std::string& file) const {
    const ParserWords words = parser_words(message_);
    fail_at(file, std::max(line_, 0), std::max(column_, 0), words.what, words.hint);
  }
  bool any() const { return !message_.empty(); }

 private:
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

void check_keys(const ParsedFile& parsed, const pb::Message& message, const Places& places);

void check_elements(const ParsedFile& parsed, const pb::Message& message,
                    const pb::FieldDescriptor& field, const Places& places) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::set<std::string> seen;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Places* nested = places.GetTreeForNested(&field, i);
    if (nested != nullptr)
      check_keys(parsed, reflection.GetRepeatedMessage(message, &field, i), *nested);
    const pb::FieldDescriptor* key = key_field(field);
    if (key == nullptr) continue;
    const pb::TextFormat::ParseLocation at = places.GetLocation(&field, i);
    const std::string name = key_of(message, field, i);
    if (name.empty()) {
      fail_at(parsed.file, at.line, at.column, field.name() + " without " + key->name(),
              "give it a " + key->name() + " of its own; others refer to it by that name");
    }
    if (!seen.insert(name).second) {
      fail_at(parsed.file, at.line, at.column,
              field.name() + " '" + name + "' stands in this file twice",
              "keep one of them, or rename it");
    }
  }
}

void check_keys(const ParsedFile& parsed, const pb::Message& message, const Places& places) {
  const pb::Descriptor& type = *message.GetDescriptor();
  const pb::Reflection& reflection = *message.GetReflection();
  for (int f = 0; f < type.field_count(); ++f) {
    const pb::FieldDescriptor& field = *type.field(f);
    if (field.cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field.is_repeated()) {
      check_elements(parsed, message, field, places);
    } else if (reflection.HasField(message, &field)) {
      const Places* nested = places.GetTreeForNested(&field, -1);
      if (nested != nullptr) check_keys(parsed, reflection.GetMessage(message, &field), *nested);
    }
  }
}

}  // namespace

const pb::FieldDescriptor* key_field(const pb::FieldDescriptor& repeated) {
  if (repeated.cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE || !repeated.is_repeated())
    return nullptr;
  const pb::Descriptor& type = *repeated.message_type();
  if (repeated.is_map()) return type.map_key();
  for (const char* name : {"id", "path"}) {
    if (const pb::FieldDescriptor* key = type.FindFieldByName(name)) return key;
  }
  return repeated.number() == v1::Training::kPhaseFieldNumber &&
                 repeated.containing_type() == v1::Training::descriptor()
             ? type.FindFieldByName("name")
             : nullptr;
}

std::string key_of(const pb::Message& parent, const pb::FieldDescriptor& repeated, int index) {
  const pb::Message& element = parent.GetReflection()->GetRepeatedMessage(parent, &repeated, index);
  return element.GetReflection()->GetString(element, key_field(repeated));
}

std::unique_ptr<ParsedFile> parse_recipe(const std::string& file, const std::string& text) {
  if (text.size() > kMaxBytes) {
    throw Error(Exit::kUsage, file + ": " + std::to_string(text.size()) + " bytes, more than the " +
                                  std::to_string(kMaxBytes) + " a recipe may have");
  }
  auto parsed = std::make_unique<ParsedFile>();
  parsed->file = file;
  FirstError errors;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&parsed->places);
  parser.SetRecursionLimit(kMaxDepth);
  if (!parser.ParseFromString(text, &parsed->recipe) || errors.any()) errors.raise(file);
  check_keys(*parsed, parsed->recipe, parsed->places);
  return parsed;
}

}  // namespace reciperun
