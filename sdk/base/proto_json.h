// Configuration and reports as JSON text, through protobuf: the message is the schema.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace assay {

// Reads JSON text into `message`; empty text leaves it untouched. Unknown keys, wrong types and
// malformed text fail with kInvalid: "<what>: ...". Keys are the proto names ("learning_rate") or
// their lowerCamelCase form.
void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what);

// One line of JSON with proto names; fields at their default are written too.
std::string to_json(const google::protobuf::Message& message);

}  // namespace assay
