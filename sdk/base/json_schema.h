// Does JSON fit a protobuf message? Asked before protobuf's own parser, whose answers speak of
// field types and descriptors instead of keys.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/struct.pb.h>

#include <string_view>

namespace assay {

// Fails with kInvalid for the first key that `schema` does not have, or whose value is of another
// type: "<what>: ...". Messages of package google.protobuf take anything.
void check_json_schema(const google::protobuf::Struct& object,
                       const google::protobuf::Descriptor& schema, std::string_view what);

}  // namespace assay
