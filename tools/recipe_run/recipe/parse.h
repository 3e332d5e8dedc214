// Strict reading of one recipe file: text format in, message plus the line of every field out.
#pragma once

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

struct ParsedFile {
  std::string file;  // as shown in messages
  v1::Recipe recipe;
  // Where each field stands (lines and columns from 0). A field is *set* exactly if it has a
  // location here: an explicit `label_smoothing: 0` counts, which proto3 messages alone cannot tell
  // from an absent field.
  google::protobuf::TextFormat::ParseInfoTree places;
};

// Fails with "file:line:column: ..." on unknown, repeated or mistyped fields, on elements without
// or with a repeated key, and on text that is too large or too deep. `text` need not be valid UTF-8
// or terminated.
std::unique_ptr<ParsedFile> parse_recipe(const std::string& file, const std::string& text);

// The field that names an element of a repeated message: `id`, `path`, a phase's `name`, or a map's
// key; nullptr if its elements have none.
const google::protobuf::FieldDescriptor* key_field(
    const google::protobuf::FieldDescriptor& repeated);

// The key of the element `index` of such a field.
std::string key_of(const google::protobuf::Message& parent,
                   const google::protobuf::FieldDescriptor& repeated, int index);

}  // namespace reciperun
