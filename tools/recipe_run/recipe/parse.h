// Strict reading of protobuf's text format: message plus the line of every field out of a recipe
// file, and mistakes told in the words of recipes.
#pragma once

#include <google/protobuf/text_format.h>

#include <memory>
#include <optional>
#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

using Places = google::protobuf::TextFormat::ParseInfoTree;

// A mistake in a text.
struct TextProblem {
  int line = 0, column = 0;  // from 0
  std::string what;          // "there is no field 'epoch' in Training"
  std::string hint;          // what to do ("did you mean 'epochs'?"); may be empty

  // "3:12", counted from 1.
  std::string place() const;
};

// Reads `text` into `message` and, if asked for, where each field stands; the first problem, or
// none. `text` need not be valid UTF-8.
std::optional<TextProblem> read_text(const std::string& text, google::protobuf::Message& message,
                                     Places* places = nullptr);

// What a field takes: "a whole number", "one of FP32, TF32", "a block in braces".
std::string kind_of_value(const google::protobuf::FieldDescriptor& field);

struct ParsedFile {
  std::string file;  // as shown in messages
  v1::Recipe recipe;
  // Where each field stands (lines and columns from 0). A field is *set* exactly if it has a
  // location here: an explicit `label_smoothing: 0` counts, which proto3 messages alone cannot tell
  // from an absent field.
  Places places;
};

// Fails with "file:line:column: ..." on unknown, repeated or mistyped fields, on elements without
// or with a repeated key, and on text that is too large or too deep.
std::unique_ptr<ParsedFile> parse_recipe(const std::string& file, const std::string& text);

// The field that names an element of a repeated message: `id`, `path`, a phase's `name`, or a map's
// key; nullptr if its elements have none.
const google::protobuf::FieldDescriptor* key_field(
    const google::protobuf::FieldDescriptor& repeated);

// The key of the element `index` of such a field.
std::string key_of(const google::protobuf::Message& parent,
                   const google::protobuf::FieldDescriptor& repeated, int index);

}  // namespace reciperun
