// Files and reports as JSON text, through protobuf: the message is the schema. (Configurations are
// declared: config.h.)
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace assay {

// Reads JSON text into `message`, whose fields are scalars, messages and lists, and which holds
// nothing else afterwards; empty text leaves it untouched. Keys are the proto names
// ("learning_rate"). Text that is not JSON, unknown and repeated keys and values of a wrong type,
// null among them, fail with kInvalid: "<what>: ...", naming the place, the key by its path
// ("optimizer.group[1].match"), what was found, and what is known or expected there.
void parse_json(std::string_view text, google::protobuf::Message& message, std::string_view what);

// One line of JSON with proto names, in the order of the schema. Fields at their default are
// written too, but for those that are `optional` in the schema and not set. 64-bit integers are
// texts, as in protobuf's mapping. Strings marked (assay.json_text) are written as they are.
std::string to_json(const google::protobuf::Message& message);

}  // namespace assay
