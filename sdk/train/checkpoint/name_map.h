// Names of tensors in other programs' files against ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/config.h"

namespace assay::weights {

// How a file stores an axis order that is not ours. Applies to tensors of the rank it names; others
// pass unchanged.
//   OIHW  rank 4, PyTorch convolutions; ours are O,H,W,I
//   HWIO  rank 4, TensorFlow convolutions
//   IO    rank 2, TensorFlow linear weights; ours are O,I
struct NameRule {
  std::string file;             // pattern of the name in the file
  std::string model;            // pattern of our name
  std::string layout = "SAME";  // or one of the above
  std::string role;             // "value" or "statistic"; "" leaves it to the name
  void fields(ConfigFields& f);
};

// The first rule that matches decides. Without rules names are equal, and layouts those that the
// file is known to have (weights.h), else ours. `*` stands for any run of characters, the same in
// both names, in order.
struct NameMap {
  std::vector<NameRule> rules;
  bool partial = false;           // files are written without what no rule matches
  std::vector<std::string> keep;  // patterns of our names: what loading leaves as it is
  void fields(ConfigFields& f);
};

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
