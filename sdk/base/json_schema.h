// Does JSON fit a protobuf message? Asked before protobuf's own parser, which takes more than we
// mean and whose answers speak of field types and descriptors instead of keys.
#pragma once

#include <google/protobuf/descriptor.h>

#include "sdk/base/json_text.h"

namespace assay {

// Fails with kInvalid for the first key that `schema` does not have, or whose value is of another
// type. Keys are the names of the proto file; whole numbers of 64 bits may be texts, which keep all
// their digits. Messages of package google.protobuf take anything.
void check_json_schema(const JsonValue& value, const google::protobuf::Descriptor& schema,
                       const JsonSource& source);

}  // namespace assay
