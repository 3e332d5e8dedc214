// Does JSON fit what is expected of it? The answers speak of keys and values in the writer's words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sdk/base/json_text.h"

namespace assay {

// The keys of an object. Made from a protobuf message (proto_json.cpp) or a configuration
// (config.h).
struct JsonSchema {
  enum class Type {
    kBool,
    kText,
    kInt32,
    kInt64,  // 64-bit integers may be texts, which keep all their digits
    kUint32,
    kUint64,
    kFloat,
    kDouble,
    kEnum,
    kObject,
    kAnything,
  };
  struct Key {
    std::string name;
    Type type = Type::kAnything;
    bool is_list = false;
    std::string form = {};                          // of a list in words: "[rows, columns]"
    std::vector<std::string> choices = {};          // kEnum
    std::shared_ptr<const JsonSchema> object = {};  // kObject
  };
  std::vector<Key> keys;
};

// Fails with kInvalid for the first key that `schema` does not have, or whose value is of another
// type.
void check_json_schema(const JsonValue& value, const JsonSchema& schema, const JsonSource& source);

// A number that passed, as T.
template <class T>
T json_number(const JsonValue& value);

}  // namespace assay
