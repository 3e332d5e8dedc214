#include "tools/recipe_run/recipe/difference.h"

#include <map>
#include <set>

#include "tools/recipe_run/recipe/canonical.h"
#include "tools/recipe_run/recipe/parse.h"
#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

using Values = std::map<std::string, std::string>;  // of every set field, by path

void collect(pb::Message& message, const std::string& prefix, Values& out);

void collect_elements(pb::Message& message, const pb::FieldDescriptor& field,
                      const std::string& path, Values& out) {
  const pb::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const bool keyed = key_field(field) != nullptr;
    const std::string element =
        path + "." + (keyed ? key_of(message, field, i) : std::to_string(i));
    pb::Message& nested = *reflection.MutableRepeatedMessage(&message, &field, i);
    if (field.is_map()) {
      out[element] = value_text({&nested, field.message_type()->map_value(), -1});
    } else {
      collect(nested, element + ".", out);
    }
  }
}

void collect(pb::Message& message, const std::string& prefix, Values& out) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    const std::string path = prefix + field->name();
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      out[path] = value_text({&message, field, -1});
    } else if (field->is_repeated()) {
      collect_elements(message, *field, path, out);
    } else {
      collect(*reflection.MutableMessage(&message, field), path + ".", out);
    }
  }
}

Values values_of(const v1::Recipe& recipe) {
  v1::Recipe executed = executed_part(recipe);
  Values out;
  collect(executed, "", out);
  return out;
}

std::string value_or_nothing(const Values& values, const std::string& path) {
  const auto found = values.find(path);
  return found == values.end() ? "" : found->second;
}

}  // namespace

std::vector<FieldDifference> executed_differences(const v1::Recipe& first,
                                                  const v1::Recipe& second) {
  const Values a = values_of(first);
  const Values b = values_of(second);
  std::set<std::string> paths;
  for (const Values* values : {&a, &b}) {
    for (const auto& [path, value] : *values) paths.insert(path);
  }
  std::vector<FieldDifference> out;
  for (const std::string& path : paths) {
    FieldDifference difference{path, value_or_nothing(a, path), value_or_nothing(b, path)};
    if (difference.first != difference.second) out.push_back(std::move(difference));
  }
  return out;
}

}  // namespace reciperun
