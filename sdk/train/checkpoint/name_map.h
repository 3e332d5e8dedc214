// Names of tensors in other programs' files against ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sdk/train/checkpoint/weights.pb.h"

namespace assay::weights {

// From JSON text: {"rules":[{"file":"backbone.*","model":"*","layout":"OIHW"}]}. Empty text is the
// empty map. kInvalid for unknown keys and for rules that cannot be applied both ways.
NameMap parse_name_map(std::string_view json);

// The name on the other side and the rule that made it (null for the empty map); nothing when no
// rule matches.
struct MappedName {
  std::string name;
  const NameRule* rule = nullptr;
};
std::optional<MappedName> name_in_model(const NameMap& map, std::string_view file_name);
std::optional<MappedName> name_in_file(const NameMap& map, std::string_view model_name);

}  // namespace assay::weights
