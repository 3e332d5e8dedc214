// No field of a recipe is decoration: each is read by the tool, or marked `for_people` beside its
// declaration and then outside the digest of what is executed.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

// Every word that is called like a function, "name" of "x.name(": generated accessors are.
std::set<std::string> called_names() {
  std::set<std::string> names;
  const std::regex call("[.>]([a-z0-9_]+)\\(");
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(ASSAY_SOURCE_DIR) / "tools/recipe_run")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it)
      names.insert((*it)[1]);
  }
  return names;
}

void collect_fields(const pb::Descriptor& type, std::set<const pb::FieldDescriptor*>& out) {
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* field = type.field(i);
    if (!out.insert(field).second || field->is_map()) continue;
    if (field->message_type() != nullptr) collect_fields(*field->message_type(), out);
  }
}

bool is_for_people(const pb::FieldDescriptor& field) {
  return field.options().GetExtension(v1::for_people);
}

TEST(Schema, EveryFieldIsReadOrForPeople) {
  const std::set<std::string> called = called_names();
  std::set<const pb::FieldDescriptor*> fields;
  collect_fields(*v1::Recipe::descriptor(), fields);
  EXPECT_GT(fields.size(), 150u);
  for (const pb::FieldDescriptor* field : fields) {
    const std::string& name = field->lowercase_name();
    const bool read = called.count(name) > 0 || called.count("has_" + name) > 0 ||
                      called.count(name + "_size") > 0;
    EXPECT_TRUE(read || is_for_people(*field))
        << field->full_name()
        << ": no code reads it; enforce it, remove it, or mark it [(for_people) = true]";
  }
}

TEST(Schema, WhatIsForPeopleIsOutsideTheExecutedDigest) {
  v1::Recipe recipe;
  recipe.mutable_topology()->set_nodes(1);
  const std::string before = exec_digest(recipe);
  recipe.mutable_topology()->set_fabric("NVLink");
  recipe.mutable_numerics()->set_compute(v1::Numerics::FP32);
  const std::string with_compute = exec_digest(recipe);
  EXPECT_NE(before, with_compute);
  recipe.mutable_numerics()->set_repeatability(v1::Numerics::STATISTICAL);
  EXPECT_EQ(exec_digest(recipe), with_compute);
  EXPECT_EQ(recipe.topology().fabric(), "NVLink");
}

}  // namespace
}  // namespace reciperun
