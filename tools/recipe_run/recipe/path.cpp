#include "tools/recipe_run/recipe/path.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <charconv>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/parse.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// Cuts the first part off `path`.
std::string take_part(std::string_view& path) {
  const size_t dot = path.find('.');
  std::string part(path.substr(0, dot));
  path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  return part;
}

std::string unknown_name(const pb::Descriptor& type, const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  const std::string similar = closest(name, names);
  return "there is no '" + name + "' in " + type.name() + "; " +
         (similar.empty() ? "it has: " + join(names, ", ") : "did you mean '" + similar + "'?");
}

[[noreturn]] void fail_path(std::string_view path, const std::string& why) {
  throw Error(Exit::kUsage, "path '" + std::string(path) + "': " + why);
}

// The element whose key is the longest prefix of `rest`; takes the key off `rest`. -1 if none.
int take_element(const pb::Message& parent, const pb::FieldDescriptor& field,
                 std::string_view& rest) {
  int best = -1;
  size_t best_size = 0;
  for (int i = 0; i < parent.GetReflection()->FieldSize(parent, &field); ++i) {
    const std::string key = key_of(parent, field, i);
    if (is_under(rest, key) && (best < 0 || key.size() > best_size)) {
      best = i;
      best_size = key.size();
    }
  }
  if (best >= 0) rest = rest.size() == best_size ? std::string_view{} : rest.substr(best_size + 1);
  return best;
}

std::string known_keys(const pb::Message& parent, const pb::FieldDescriptor& field) {
  std::vector<std::string> keys;
  for (int i = 0; i < parent.GetReflection()->FieldSize(parent, &field); ++i) {
    keys.push_back(key_of(parent, field, i));
  }
  return keys.empty() ? "there are none" : "there are: " + join(keys, ", ");
}

int take_number(std::string_view whole, std::string_view& rest, int size) {
  const std::string part = take_part(rest);
  int index = -1;
  const auto end = std::from_chars(part.data(), part.data() + part.size(), index).ptr;
  if (end != part.data() + part.size() || index < 0 || index >= size) {
    fail_path(whole, "'" + part + "' is not an element number below " + std::to_string(size));
  }
  return index;
}

Place step_into_repeated(std::string_view whole, pb::Message& parent,
                         const pb::FieldDescriptor& field, std::string_view& rest) {
  const pb::Reflection& reflection = *parent.GetReflection();
  if (key_field(field) == nullptr) {
    return {&parent, &field, take_number(whole, rest, reflection.FieldSize(parent, &field))};
  }
  int index = take_element(parent, field, rest);
  if (index < 0 && !field.is_map()) {
    fail_path(whole,
              "no " + field.name() + " '" + std::string(rest) + "'; " + known_keys(parent, field));
  }
  if (index < 0) {
    pb::Message& entry = *reflection.AddMessage(&parent, &field);
    entry.GetReflection()->SetString(&entry, field.message_type()->map_key(), std::string(rest));
    index = reflection.FieldSize(parent, &field) - 1;
    rest = {};
  }
  return {&parent, &field, index};
}

}  // namespace

bool is_under(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix &&
         (path.size() == prefix.size() || path[prefix.size()] == '.');
}

Place find_place(pb::Message& root, std::string_view path) {
  pb::Message* message = &root;
  for (std::string_view rest = path;;) {
    const std::string name = take_part(rest);
    const pb::FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) fail_path(path, unknown_name(*message->GetDescriptor(), name));
    Place place{message, field, -1};
    if (rest.empty()) return place;
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      fail_path(path, "'" + name + "' is a plain value, nothing can follow it");
    }
    const pb::Reflection& reflection = *message->GetReflection();
    if (!field->is_repeated()) {
      message = reflection.MutableMessage(message, field);
      continue;
    }
    place = step_into_repeated(path, *message, *field, rest);
    pb::Message* element = reflection.MutableRepeatedMessage(message, field, place.index);
    if (field->is_map()) return {element, field->message_type()->map_value(), -1};
    if (rest.empty()) return place;
    message = element;
  }
}

std::string path_problem(const pb::Descriptor& root, std::string_view path) {
  const pb::Descriptor* type = &root;
  while (!path.empty()) {
    const std::string name = take_part(path);
    const pb::FieldDescriptor* field = type->FindFieldByName(name);
    if (field == nullptr) return unknown_name(*type, name);
    if (path.empty()) return "";
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      return "'" + name + "' is a plain value, nothing can follow it";
    }
    if (field->is_repeated())
      return "";  // what follows starts with a key, which the schema cannot know
    type = field->message_type();
  }
  return "empty path";
}

std::string value_text(const Place& place) {
  const pb::Message& parent = *place.parent;
  const pb::Reflection& reflection = *parent.GetReflection();
  pb::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  if (place.index >= 0 || !place.field->is_repeated()) {
    if (place.field->has_presence() && !reflection.HasField(parent, place.field)) return "";
    printer.PrintFieldValueToString(parent, place.field, place.index, &text);
    return text;
  }
  std::vector<std::string> items;
  for (int i = 0; i < reflection.FieldSize(parent, place.field); ++i) {
    printer.PrintFieldValueToString(parent, place.field, i, &text);
    items.push_back(text);
  }
  return "[" + join(items, ", ") + "]";
}

void clear_place(const Place& place) {
  const pb::Reflection& reflection = *place.parent->GetReflection();
  if (place.index < 0) {
    reflection.ClearField(place.parent, place.field);
    return;
  }
  const int last = reflection.FieldSize(*place.parent, place.field) - 1;
  for (int i = place.index; i < last; ++i) {
    reflection.SwapElements(place.parent, place.field, i, i + 1);
  }
  reflection.RemoveLast(place.parent, place.field);
}

}  // namespace reciperun
