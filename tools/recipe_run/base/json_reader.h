// JSON text read into messages, strictly (RFC 8259). protobuf's own parser takes more: single
// quotes, trailing commas, keys without quotation marks.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace reciperun {

// "" or what is wrong with the text, and where.
std::string parse_json(const std::string& text, google::protobuf::Message& message);

}  // namespace reciperun
