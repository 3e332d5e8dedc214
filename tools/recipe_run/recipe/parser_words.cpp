#include "tools/recipe_run/recipe/parser_words.h"

#include <map>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// The text between the n-th pair of double quotes (n from 0), or "".
std::string quoted(const std::string& message, int n) {
  const std::vector<std::string> parts = split(message, '"');
  const auto at = static_cast<size_t>(2 * n + 1);
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

ParserWords no_such_field(const std::string& message) {
  const std::string name = quoted(message, 1);
  const pb::Descriptor* type =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(quoted(message, 0));
  if (type == nullptr) return {message, ""};
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return {"there is no field '" + name + "' in " + type->name(),
          meant(name, names, type->name() + " has: ")};
}

ParserWords no_such_value(const std::string& message) {
  const std::string value = quoted(message, 0), field = quoted(message, 1);
  const pb::EnumDescriptor* type = find_enum(*v1::Recipe::descriptor(), field);
  return {"'" + value + "' is no value of '" + field + "'",
          type == nullptr ? "" : meant(value, value_names(*type), "one of: ")};
}

ParserWords wrong_kind(const std::string& message) {
  static const std::map<std::string, std::string> kKinds = {
      {"Expected integer", "a whole number"},
      {"Expected double", "a number"},
      {"Expected string", "text in double quotes"},
      {"Expected identifier", "a name"}};
  const size_t got = message.find(", got: ");
  if (got == std::string::npos) return {message, ""};
  const auto kind = kKinds.find(message.substr(0, got));
  if (kind == kKinds.end()) return {message, ""};
  return {"expected " + kind->second + ", found " + message.substr(got + 7), ""};
}

}  // namespace

ParserWords parser_words(const std::string& message) {
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  const std::string first = "'" + quoted(message, 0) + "'";
  if (says("has no field named")) return no_such_field(message);
  if (says("Unknown enumeration value")) return no_such_value(message);
  if (says("is specified multiple times"))
    return {first + " stands here twice", "keep one of them"};
  if (says("another member of oneof"))
    return {first + " and '" + quoted(message, 1) + "' exclude each other", "keep one of them"};
  if (says("Invalid value for boolean field"))
    return {first + " is true or false, not '" + quoted(message, 1) + "'", ""};
  if (says("recursion limit")) return {"blocks are nested too deeply", ""};
  return wrong_kind(message);
}

std::string kind_of_value(const pb::FieldDescriptor& field) {
  std::string kind;
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
      kind = "a whole number";
  }
  return field.is_repeated() ? "a list: [" + kind + ", ...]" : kind;
}

}  // namespace reciperun
