#include "tools/recipe_run/recipe/canonical.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/sha256.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// Which fields are written: all, or those that differ from their default.
enum class Fields { kAll, kSet };

void write_message(JsonWriter& json, const pb::Message& message, Fields fields);

// A single value (index -1) or an element. Every scalar type of recipe.proto; others do not occur
// there.
void write_value(JsonWriter& json, const pb::Message& message, const pb::FieldDescriptor& field,
                 int index, Fields fields) {
  const pb::Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      json.value(one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index));
      break;
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      json.value(one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
      break;
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      json.value(one ? r.GetUInt32(message, &field) : r.GetRepeatedUInt32(message, &field, index));
      break;
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      json.value(one ? r.GetUInt64(message, &field) : r.GetRepeatedUInt64(message, &field, index));
      break;
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      json.value(one ? r.GetBool(message, &field) : r.GetRepeatedBool(message, &field, index));
      break;
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      json.value(
          (one ? r.GetEnum(message, &field) : r.GetRepeatedEnum(message, &field, index))->name());
      break;
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      write_message(
          json, one ? r.GetMessage(message, &field) : r.GetRepeatedMessage(message, &field, index),
          fields);
      break;
    default:
      json.null();
  }
}

void write_map(JsonWriter& json, const pb::Message& message, const pb::FieldDescriptor& field) {
  std::map<std::string, std::string> entries;
  const pb::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const pb::Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const pb::Reflection& r = *entry.GetReflection();
    entries[r.GetString(entry, field.message_type()->map_key())] =
        r.GetString(entry, field.message_type()->map_value());
  }
  json.begin_object();
  for (const auto& [key, value] : entries) json.field(key, value);
  json.end_object();
}

void write_field(JsonWriter& json, const pb::Message& message, const pb::FieldDescriptor& field,
                 Fields fields) {
  const pb::Reflection& reflection = *message.GetReflection();
  json.key(field.name());
  if (field.is_map()) {
    write_map(json, message, field);
  } else if (field.is_repeated()) {
    json.begin_array();
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i)
      write_value(json, message, field, i, fields);
    json.end_array();
  } else if (field.has_presence() && !reflection.HasField(message, &field)) {
    json.null();
  } else {
    write_value(json, message, field, -1, fields);
  }
}

bool is_set(const pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

void write_message(JsonWriter& json, const pb::Message& message, Fields fields) {
  std::vector<const pb::FieldDescriptor*> written;
  const pb::Descriptor& type = *message.GetDescriptor();
  for (int f = 0; f < type.field_count(); ++f) {
    if (fields == Fields::kAll || is_set(message, *type.field(f))) written.push_back(type.field(f));
  }
  std::sort(written.begin(), written.end(),
            [](const auto* a, const auto* b) { return a->name() < b->name(); });
  json.begin_object();
  for (const pb::FieldDescriptor* field : written) write_field(json, message, *field, fields);
  json.end_object();
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

std::string digest(const pb::Message& message) {
  JsonWriter json;
  write_message(json, message, Fields::kSet);
  return sha256_hex(json.text());
}

}  // namespace

std::string canonical_json(const pb::Message& message) {
  JsonWriter json;
  write_message(json, message, Fields::kAll);
  return json.text();
}

v1::Recipe executed_part(const v1::Recipe& recipe) {
  v1::Recipe executed;
  executed.set_schema(recipe.schema());
  if (recipe.has_model()) *executed.mutable_model() = recipe.model();
  *executed.mutable_data() = recipe.data();
  if (recipe.has_training()) *executed.mutable_training() = recipe.training();
  if (recipe.has_numerics()) *executed.mutable_numerics() = recipe.numerics();
  if (recipe.has_trials()) *executed.mutable_trials() = recipe.trials();
  if (recipe.has_trials()) executed.mutable_trials()->clear_count();
  if (recipe.has_trials()) executed.mutable_trials()->clear_max_count();
  if (recipe.has_evaluation()) *executed.mutable_evaluation() = recipe.evaluation();
  *executed.mutable_bench() = recipe.bench();
  if (recipe.has_topology()) *executed.mutable_topology() = recipe.topology();
  clear_for_people(executed);
  return executed;
}

std::string exec_digest(const v1::Recipe& recipe) { return digest(executed_part(recipe)); }

std::string expect_digest(const v1::Recipe& recipe) {
  v1::Recipe expected;
  expected.set_schema(recipe.schema());
  if (recipe.has_platform()) *expected.mutable_platform() = recipe.platform();
  *expected.mutable_source() = recipe.source();
  *expected.mutable_expect() = recipe.expect();
  *expected.mutable_deviation() = recipe.deviation();
  return digest(expected);
}

}  // namespace reciperun
