// Walks messages by reflection: to a path, over two files at once, and over all values.
#include "tools/recipe_run/recipe/fields.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>

#include <charconv>
#include <set>

#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;
using Location = pb::TextFormat::ParseLocation;

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
  return fmt::format(
      "there is no '{}' in {}; {}", name, type.name(),
      similar.empty() ? "it has: " + join(names, ", ") : "did you mean '" + similar + "'?");
}

constexpr char kPlainValue[] = "'{}' is a plain value, nothing can follow it";

[[noreturn]] void fail_path(std::string_view path, const std::string& why) {
  throw Error(Exit::kUsage, fmt::format("path '{}': {}", path, why));
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
  for (int i = 0; i < parent.GetReflection()->FieldSize(parent, &field); ++i)
    keys.push_back(key_of(parent, field, i));
  return keys.empty() ? "there are none" : "there are: " + join(keys, ", ");
}

int take_number(std::string_view whole, std::string_view& rest, int size) {
  const std::string part = take_part(rest);
  int index = -1;
  const auto end = std::from_chars(part.data(), part.data() + part.size(), index).ptr;
  if (end != part.data() + part.size() || index < 0 || index >= size)
    fail_path(whole, fmt::format("'{}' is not an element number below {}", part, size));
  return index;
}

Place step_into_repeated(std::string_view whole, pb::Message& parent,
                         const pb::FieldDescriptor& field, std::string_view& rest) {
  const pb::Reflection& reflection = *parent.GetReflection();
  if (key_field(field) == nullptr)
    return {&parent, &field, take_number(whole, rest, reflection.FieldSize(parent, &field))};
  int index = take_element(parent, field, rest);
  if (index < 0 && !field.is_map())
    fail_path(whole, fmt::format("no {} '{}'; {}", field.name(), rest, known_keys(parent, field)));
  if (index < 0) {
    pb::Message& entry = *reflection.AddMessage(&parent, &field);
    entry.GetReflection()->SetString(&entry, field.message_type()->map_key(), std::string(rest));
    index = reflection.FieldSize(parent, &field) - 1;
    rest = {};
  }
  return {&parent, &field, index};
}

// One file being laid over the target.
class Layer {
 public:
  Layer(std::string file, Origins& origins) : file_(std::move(file)), origins_(origins) {}

  void merge(const pb::Message& from, const Places& places, pb::Message& to,
             const std::string& prefix) {
    const pb::Descriptor& type = *from.GetDescriptor();
    for (int f = 0; f < type.field_count(); ++f) {
      const pb::FieldDescriptor& field = *type.field(f);
      const Location at = places.GetLocation(&field, field.is_repeated() ? 0 : -1);
      if (at.line < 0 || is_private(field)) continue;
      const std::string path = prefix + field.name();
      drop_oneof_siblings({&to, &field, -1}, path, origins_);
      if (field.cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        copy_value(from, field, to, path, at);
      } else if (field.is_repeated()) {
        merge_repeated(from, field, places, to, path);
      } else {
        pb::Message& nested = *to.GetReflection()->MutableMessage(&to, &field);
        merge(from.GetReflection()->GetMessage(from, &field), *places.GetTreeForNested(&field, -1),
              nested, path + ".");
      }
    }
  }

 private:
  // Composition instructions belong to their file alone.
  static bool is_private(const pb::FieldDescriptor& field) {
    return field.containing_type() == v1::Recipe::descriptor() &&
           (field.number() == v1::Recipe::kExtendsFieldNumber ||
            field.number() == v1::Recipe::kClearFieldNumber);
  }

  void note(const std::string& path, const Location& at, const Place& place) {
    origins_[path].push_back({file_, at.line + 1, value_text(place), at.column + 1});
  }

  void copy_value(const pb::Message& from, const pb::FieldDescriptor& field, pb::Message& to,
                  const std::string& path, const Location& at) {
    // Moved through a message that holds only this field, so that one statement serves every type.
    std::unique_ptr<pb::Message> only(from.New());
    only->CopyFrom(from);
    const pb::Descriptor& type = *from.GetDescriptor();
    for (int f = 0; f < type.field_count(); ++f) {
      if (type.field(f) != &field) only->GetReflection()->ClearField(only.get(), type.field(f));
    }
    to.GetReflection()->ClearField(&to, &field);
    to.MergeFrom(*only);
    note(path, at, {&to, &field, -1});
  }

  void merge_repeated(const pb::Message& from, const pb::FieldDescriptor& field,
                      const Places& places, pb::Message& to, const std::string& path) {
    const pb::Reflection& reflection = *from.GetReflection();
    const bool keyed = key_field(field) != nullptr;
    if (!keyed) {
      to.GetReflection()->ClearField(&to, &field);
      forget(origins_, path);
    }
    for (int i = 0; i < reflection.FieldSize(from, &field); ++i) {
      const std::string name = keyed ? key_of(from, field, i) : std::to_string(i);
      pb::Message& element =
          keyed ? find_or_add(to, field, name) : *to.GetReflection()->AddMessage(&to, &field);
      const pb::Message& source = reflection.GetRepeatedMessage(from, &field, i);
      if (field.is_map()) {
        element.CopyFrom(source);
        note(path + "." + name, places.GetLocation(&field, i),
             {&element, field.message_type()->map_value(), -1});
      } else {
        merge(source, *places.GetTreeForNested(&field, i), element, path + "." + name + ".");
      }
    }
  }

  static pb::Message& find_or_add(pb::Message& to, const pb::FieldDescriptor& field,
                                  const std::string& name) {
    const pb::Reflection& reflection = *to.GetReflection();
    for (int i = 0; i < reflection.FieldSize(to, &field); ++i) {
      if (key_of(to, field, i) == name) return *reflection.MutableRepeatedMessage(&to, &field, i);
    }
    return *reflection.AddMessage(&to, &field);
  }

  std::string file_;
  Origins& origins_;
};

using Values = std::map<std::string, std::string>;  // of every set field, by path

void collect(pb::Message& message, const std::string& prefix, Values& out) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    const std::string path = prefix + field->name();
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      out[path] = value_text({&message, field, -1});
    } else if (!field->is_repeated()) {
      collect(*reflection.MutableMessage(&message, field), path + ".", out);
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        const bool keyed = key_field(*field) != nullptr;
        const std::string element =
            path + "." + (keyed ? key_of(message, *field, i) : std::to_string(i));
        pb::Message& nested = *reflection.MutableRepeatedMessage(&message, field, i);
        if (field->is_map()) {
          out[element] = value_text({&nested, field->message_type()->map_value(), -1});
        } else {
          collect(nested, element + ".", out);
        }
      }
    }
  }
}

Values executed_values(const v1::Recipe& recipe) {
  v1::Recipe executed = executed_part(recipe);
  Values out;
  collect(executed, "", out);
  return out;
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
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
      fail_path(path, fmt::format(kPlainValue, name));
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
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
      return fmt::format(kPlainValue, name);
    // What follows a repeated field starts with a key, which the schema cannot know.
    if (field->is_repeated()) return "";
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
  for (int i = place.index; i < last; ++i)
    reflection.SwapElements(place.parent, place.field, i, i + 1);
  reflection.RemoveLast(place.parent, place.field);
}

std::string Origin::place() const {
  return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
}

void lay_over(const ParsedFile& parsed, v1::Recipe& target, Origins& origins) {
  Layer(parsed.file, origins).merge(parsed.recipe, parsed.places, target, "");
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

const Origin* find_origin(const Origins& origins, const std::string& path) {
  for (auto it = origins.lower_bound(path); it != origins.end() && it->first.starts_with(path);
       ++it) {
    if (is_under(it->first, path)) return &it->second.back();
  }
  return nullptr;
}

void forget(Origins& origins, const std::string& path) {
  for (auto it = origins.lower_bound(path); it != origins.end() && it->first.starts_with(path);)
    it = is_under(it->first, path) ? origins.erase(it) : std::next(it);
}

Change change_of(const std::string& path, const std::string& from, const std::string& to) {
  Change out;
  out.set_path(path);
  out.set_from(from);
  out.set_to(to);
  return out;
}

std::string or_unset(const std::string& value) { return value.empty() ? "unset" : value; }

std::string change_text(const Change& change) {
  return fmt::format("{} {} → {}", change.path(), or_unset(change.from()), or_unset(change.to()));
}

std::vector<std::string> change_texts(const Changes& changes) {
  std::vector<std::string> out;
  for (const Change& change : changes) {
    if (!change.free()) out.push_back(change_text(change));
  }
  return out;
}

std::vector<Change> executed_differences(const v1::Recipe& first, const v1::Recipe& second) {
  Values a = executed_values(first), b = executed_values(second);
  std::set<std::string> paths;
  for (const Values* values : {&a, &b}) {
    for (const auto& [path, value] : *values) paths.insert(path);
  }
  std::vector<Change> out;
  for (const std::string& path : paths) {
    if (a[path] != b[path]) out.push_back(change_of(path, a[path], b[path]));
  }
  return out;
}

}  // namespace reciperun
