// What protobuf's text parser says, in the words of recipes.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace reciperun {

struct ParserWords {
  std::string what;
  std::string hint;  // what to do; may be empty
};

// "there is no field 'epoch' in Training"; "did you mean 'epochs'?". Messages it does not know come
// back as they are.
ParserWords parser_words(const std::string& message);

// What a field takes: "a whole number", "one of FP32, TF32", "a block in braces".
std::string kind_of_value(const google::protobuf::FieldDescriptor& field);

}  // namespace reciperun
