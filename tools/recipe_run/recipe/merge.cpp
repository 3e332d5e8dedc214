#include "tools/recipe_run/recipe/merge.h"

#include <google/protobuf/descriptor.h>

#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;
using Places = pb::TextFormat::ParseInfoTree;
using Location = pb::TextFormat::ParseLocation;

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
      drop_oneof_siblings(field, to, prefix);
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

  void drop_oneof_siblings(const pb::FieldDescriptor& field, pb::Message& to,
                           const std::string& prefix) {
    const pb::OneofDescriptor* oneof = field.containing_oneof();
    if (oneof == nullptr) return;
    const pb::FieldDescriptor* present = to.GetReflection()->GetOneofFieldDescriptor(to, oneof);
    if (present == nullptr || present == &field) return;
    to.GetReflection()->ClearField(&to, present);
    forget(origins_, prefix + present->name());
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

}  // namespace

void lay_over(const ParsedFile& parsed, v1::Recipe& target, Origins& origins) {
  Layer(parsed.file, origins).merge(parsed.recipe, parsed.places, target, "");
}

std::string Origin::place() const {
  return line == 0 ? file : file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

const Origin* find_origin(const Origins& origins, const std::string& path) {
  for (auto it = origins.lower_bound(path);
       it != origins.end() && it->first.compare(0, path.size(), path) == 0; ++it) {
    if (is_under(it->first, path)) return &it->second.back();
  }
  return nullptr;
}

void forget(Origins& origins, const std::string& path) {
  for (auto it = origins.lower_bound(path);
       it != origins.end() && it->first.compare(0, path.size(), path) == 0;) {
    it = is_under(it->first, path) ? origins.erase(it) : std::next(it);
  }
}

}  // namespace reciperun
