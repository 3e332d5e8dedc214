// Runs protobuf's text parser, says its complaints in the words of recipes, and checks the keys of
// repeated elements, which protobuf does not know.
#include "tools/recipe_run/recipe/parse.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <map>
#include <set>
#include <vector>

#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

constexpr size_t kMaxBytes = 1 << 20;  // the largest recipe has about 300 expectations of 400 bytes
constexpr int kMaxDepth = 32;

// --- What protobuf's text parser says, in the words of recipes. ---

struct Wording {
  std::string what, hint;
};

// The text between the n-th pair of double quotes (n from 0), or "".
std::string quoted(const std::string& message, size_t n) {
  const std::vector<std::string> parts = split(message, '"');
  const size_t at = 2 * n + 1;
  return at < parts.size() ? parts[at] : "";
}

std::string meant(const std::string& word, const std::vector<std::string>& names,
                  const std::string& otherwise) {
  const std::string similar = closest(word, names);
  return similar.empty() ? otherwise + join(names, ", ") : "did you mean '" + similar + "'?";
}

std::vector<std::string> value_names(const pb::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(type.value(i)->name());  // 0 is "not set"
  }
  return names;
}

// The type of the first field of that name with named values, in `type` or below it.
const pb::EnumDescriptor* find_enum(const pb::Descriptor& type, const std::string& field,
                                    int depth = 8) {
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor& f = *type.field(i);
    if (f.name() == field && f.enum_type() != nullptr) return f.enum_type();
    if (f.message_type() == nullptr || depth == 0) continue;
    if (const auto* found = find_enum(*f.message_type(), field, depth - 1)) return found;
  }
  return nullptr;
}

Wording no_such_field(const std::string& message) {
  const std::string name = quoted(message, 1);
  const pb::Descriptor* type =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(quoted(message, 0));
  if (type == nullptr) return {message, ""};
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return {fmt::format("there is no field '{}' in {}", name, type->name()),
          meant(name, names, type->name() + " has: ")};
}

Wording no_such_value(const std::string& message) {
  const std::string value = quoted(message, 0), field = quoted(message, 1);
  const pb::EnumDescriptor* type = find_enum(*v1::Recipe::descriptor(), field);
  return {fmt::format("'{}' is no value of '{}'", value, field),
          type == nullptr ? "" : meant(value, value_names(*type), "one of: ")};
}

Wording wrong_kind(const std::string& message) {
  static const std::map<std::string, std::string> kKinds = {
      {"Expected integer", "a whole number"},
      {"Expected double", "a number"},
      {"Expected string", "text in double quotes"},
      {"Expected identifier", "a name"}};
  const size_t got = message.find(", got: ");
  const auto kind = kKinds.find(message.substr(0, got));
  if (got == std::string::npos || kind == kKinds.end()) return {message, ""};
  return {"expected " + kind->second + ", found " + message.substr(got + 7), ""};
}

// Messages it does not know come back as they are.
Wording in_words_of_recipes(const std::string& message) {
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  const std::string first = "'" + quoted(message, 0) + "'";
  const std::string second = "'" + quoted(message, 1) + "'";
  if (says("has no field named")) return no_such_field(message);
  if (says("Unknown enumeration value")) return no_such_value(message);
  if (says("is specified multiple times"))
    return {first + " stands here twice", "keep one of them"};
  if (says("another member of oneof"))
    return {first + " and " + second + " exclude each other", "keep one of them"};
  if (says("Invalid value for boolean field"))
    return {first + " is true or false, not " + second, ""};
  if (says("recursion limit")) return {"blocks are nested too deeply", ""};
  return wrong_kind(message);
}

class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (found) return;
    const Wording words = in_words_of_recipes(message);
    found = TextProblem{std::max(line, 0), std::max(column, 0), words.what, words.hint};
  }
  void AddWarning(int line, pb::io::ColumnNumber column, const std::string& message) override {
    AddError(line, column, message);
  }
  std::optional<TextProblem> found;
};

// --- Keys of repeated elements. ---

[[noreturn]] void fail(const std::string& file, const TextProblem& problem) {
  throw Error(Exit::kUsage, fmt::format("{}:{}: {}", file, problem.place(), problem.what),
              problem.hint);
}

void check_keys(const std::string& file, const pb::Message& message, const Places& places);

void check_elements(const std::string& file, const pb::Message& message,
                    const pb::FieldDescriptor& field, const Places& places) {
  const pb::Reflection& reflection = *message.GetReflection();
  const pb::FieldDescriptor* key = key_field(field);
  std::set<std::string> seen;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (const Places* nested = places.GetTreeForNested(&field, i))
      check_keys(file, reflection.GetRepeatedMessage(message, &field, i), *nested);
    if (key == nullptr) continue;
    const pb::TextFormat::ParseLocation at = places.GetLocation(&field, i);
    const std::string name = key_of(message, field, i);
    if (name.empty()) {
      fail(file, {at.line, at.column, field.name() + " without " + key->name(),
                  "give it a " + key->name() + " of its own; others refer to it by that name"});
    }
    if (!seen.insert(name).second) {
      fail(file, {at.line, at.column,
                  fmt::format("{} '{}' stands in this file twice", field.name(), name),
                  "keep one of them, or rename it"});
    }
  }
}

void check_keys(const std::string& file, const pb::Message& message, const Places& places) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      check_elements(file, message, *field, places);
    } else if (const Places* nested = places.GetTreeForNested(field, -1)) {
      check_keys(file, reflection.GetMessage(message, field), *nested);
    }
  }
}

}  // namespace

std::string TextProblem::place() const { return fmt::format("{}:{}", line + 1, column + 1); }

std::optional<TextProblem> read_text(const std::string& text, pb::Message& message,
                                     Places* places) {
  FirstError errors;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (places != nullptr) parser.WriteLocationsTo(places);
  parser.SetRecursionLimit(kMaxDepth);
  if (!parser.ParseFromString(text, &message) && !errors.found)
    return TextProblem{0, 0, "it is not understood", ""};
  return errors.found;
}

std::string kind_of_value(const pb::FieldDescriptor& field) {
  std::string kind = "a whole number";
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      kind = "text";
      break;
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      kind = "a number";
      break;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      kind = "true or false";
      break;
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      kind = "one of " + join(value_names(*field.enum_type()), ", ");
      break;
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      kind = "a block in braces";
      break;
    default:
      break;
  }
  return field.is_repeated() ? "a list: [" + kind + ", ...]" : kind;
}

const pb::FieldDescriptor* key_field(const pb::FieldDescriptor& repeated) {
  if (repeated.cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE || !repeated.is_repeated())
    return nullptr;
  const pb::Descriptor& type = *repeated.message_type();
  if (repeated.is_map()) return type.map_key();
  for (const char* name : {"id", "path"}) {
    if (const pb::FieldDescriptor* key = type.FindFieldByName(name)) return key;
  }
  return &type == v1::Phase::descriptor() ? type.FindFieldByName("name") : nullptr;
}

std::string key_of(const pb::Message& parent, const pb::FieldDescriptor& repeated, int index) {
  const pb::Message& element = parent.GetReflection()->GetRepeatedMessage(parent, &repeated, index);
  return element.GetReflection()->GetString(element, key_field(repeated));
}

std::unique_ptr<ParsedFile> parse_recipe(const std::string& file, const std::string& text) {
  require(text.size() <= kMaxBytes, fmt::format("{}: {} bytes, more than the {} a recipe may have",
                                                file, text.size(), kMaxBytes));
  auto parsed = std::make_unique<ParsedFile>();
  parsed->file = file;
  if (const auto problem = read_text(text, parsed->recipe, &parsed->places)) fail(file, *problem);
  check_keys(file, parsed->recipe, parsed->places);
  return parsed;
}

}  // namespace reciperun
