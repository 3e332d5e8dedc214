// The canonical text of a message by reflection, and which parts of a recipe each digest is over.
#include "tools/recipe_run/recipe/digest.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tools/recipe_run/util/json.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// A single value (index -1) or an element, of the scalar types that recipe.proto has.
std::string json_of_value(const pb::Message& message, const pb::FieldDescriptor& field, int index) {
  const pb::Reflection& r = *message.GetReflection();
  const auto* f = &field;
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return json_of(one ? r.GetString(message, f) : r.GetRepeatedString(message, f, index));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return json_of(one ? r.GetDouble(message, f) : r.GetRepeatedDouble(message, f, index));
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return json_of(one ? r.GetUInt32(message, f) : r.GetRepeatedUInt32(message, f, index));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return json_of(one ? r.GetUInt64(message, f) : r.GetRepeatedUInt64(message, f, index));
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return json_of(one ? r.GetBool(message, f) : r.GetRepeatedBool(message, f, index));
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return json_of((one ? r.GetEnum(message, f) : r.GetRepeatedEnum(message, f, index))->name());
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return canonical_json(one ? r.GetMessage(message, f)
                                : r.GetRepeatedMessage(message, f, index));
    default:
      return "null";
  }
}

std::string json_of_map(const pb::Message& message, const pb::FieldDescriptor& field) {
  std::map<std::string, std::string> entries;
  const pb::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const pb::Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const pb::Reflection& r = *entry.GetReflection();
    entries[r.GetString(entry, field.message_type()->map_key())] =
        r.GetString(entry, field.message_type()->map_value());
  }
  JsonObject json;
  for (const auto& [key, value] : entries) json.field(key, value);
  return json.text();
}

std::string json_of_field(const pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& reflection = *message.GetReflection();
  if (field.is_map()) return json_of_map(message, field);
  if (!field.is_repeated()) return json_of_value(message, field, -1);
  std::string list;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i)
    list += (i == 0 ? "" : ",") + json_of_value(message, field, i);
  return "[" + list + "]";
}

// Clears every field, at any depth, that the schema marks as one that no code acts on.
void clear_for_people(pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    if (field->options().GetExtension(v1::for_people)) {
      reflection.ClearField(&message, field);
    } else if (field->is_map() || field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        clear_for_people(*reflection.MutableRepeatedMessage(&message, field, i));
    } else {
      clear_for_people(*reflection.MutableMessage(&message, field));
    }
  }
}

// `recipe` with only these of its fields.
v1::Recipe with_fields(v1::Recipe recipe, std::initializer_list<int> numbers) {
  std::vector<const pb::FieldDescriptor*> set;
  recipe.GetReflection()->ListFields(recipe, &set);
  for (const pb::FieldDescriptor* field : set) {
    if (std::find(numbers.begin(), numbers.end(), field->number()) == numbers.end())
      recipe.GetReflection()->ClearField(&recipe, field);
  }
  return recipe;
}

}  // namespace

std::string canonical_json(const pb::Message& message) {
  std::vector<const pb::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  std::sort(set.begin(), set.end(),
            [](const auto* a, const auto* b) { return a->name() < b->name(); });
  JsonObject json;
  for (const pb::FieldDescriptor* field : set)
    json.raw(field->name(), json_of_field(message, *field));
  return json.text();
}

v1::Recipe executed_part(const v1::Recipe& recipe) {
  using R = v1::Recipe;
  R executed = with_fields(
      recipe, {R::kSchemaFieldNumber, R::kModelFieldNumber, R::kDataFieldNumber,
               R::kTrainingFieldNumber, R::kNumericsFieldNumber, R::kTrialsFieldNumber,
               R::kEvaluationFieldNumber, R::kBenchFieldNumber, R::kTopologyFieldNumber});
  if (executed.has_trials()) {
    executed.mutable_trials()->clear_count();
    executed.mutable_trials()->clear_max_count();
  }
  clear_for_people(executed);
  return executed;
}

std::string exec_digest(const v1::Recipe& recipe) {
  return sha256_hex(canonical_json(executed_part(recipe)));
}

std::string expect_digest(const v1::Recipe& recipe) {
  using R = v1::Recipe;
  const R expected =
      with_fields(recipe, {R::kSchemaFieldNumber, R::kPlatformFieldNumber, R::kSourceFieldNumber,
                           R::kExpectFieldNumber, R::kDeviationFieldNumber});
  return sha256_hex(canonical_json(expected));
}

}  // namespace reciperun
