#include "tools/recipe_run/recipe/override.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/recipe/parser_words.h"
#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

bool is_free(const v1::Recipe& recipe, const std::string& path) {
  return std::any_of(recipe.free_override().begin(), recipe.free_override().end(),
                     [&](const std::string& prefix) { return is_under(path, prefix); });
}

void drop_oneof_siblings(const Place& place, const std::string& path, Origins& origins) {
  const pb::OneofDescriptor* oneof = place.field->containing_oneof();
  if (oneof == nullptr) return;
  const pb::Reflection& reflection = *place.parent->GetReflection();
  const pb::FieldDescriptor* present = reflection.GetOneofFieldDescriptor(*place.parent, oneof);
  if (present == nullptr || present == place.field) return;
  reflection.ClearField(place.parent, present);
  forget(origins, path.substr(0, path.size() - place.field->name().size()) + present->name());
}

std::string quoted_if_text(const pb::FieldDescriptor& field, const std::string& value) {
  const bool is_text = field.cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING;
  const bool is_list = field.is_repeated() && !value.empty() && value[0] == '[';
  if (!is_text || is_list || (!value.empty() && (value[0] == '"' || value[0] == '\'')))
    return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

class Message : public pb::io::ErrorCollector {
 public:
  void AddError(int, pb::io::ColumnNumber, const std::string& message) override {
    if (text.empty()) text = message;
  }
  std::string text;
};

// Parses `value` for the field at `place` and puts it there.
void assign(const Place& place, const std::string& path, const std::string& value) {
  std::unique_ptr<pb::Message> fresh(place.parent->New());
  pb::TextFormat::Parser parser;
  Message error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(32);
  const bool is_message = place.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
  const std::string text =
      place.field->name() + (is_message ? " " : ": ") + quoted_if_text(*place.field, value);
  if (!parser.ParseFromString(text, fresh.get()) || !error.text.empty()) {
    throw Error(Exit::kUsage, "--set " + path + "=" + value + ": " + parser_words(error.text).what,
                "it takes " + kind_of_value(*place.field));
  }
  place.parent->GetReflection()->ClearField(place.parent, place.field);
  place.parent->MergeFrom(*fresh);
}

}  // namespace

void apply_set(const std::string& text, ResolvedRecipe& resolved) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Exit::kUsage, "--set '" + text + "' has no '='", "write --set training.epochs=2");
  }
  const std::string path = text.substr(0, equals);
  const Place place = find_place(resolved.recipe, path);
  if (place.index >= 0) {
    throw Error(Exit::kUsage, "--set " + path + " names a whole element", "set one of its fields");
  }
  const std::string before = value_text(place);
  drop_oneof_siblings(place, path, resolved.origins);
  assign(place, path, text.substr(equals + 1));
  const std::string after = value_text(place);
  resolved.origins[path].push_back({"--set", 0, after});
  if (before != after) {
    resolved.modifications.push_back({path, before, after, is_free(resolved.recipe, path)});
  }
}

}  // namespace reciperun
