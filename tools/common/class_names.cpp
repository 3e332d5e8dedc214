#include "tools/common/class_names.h"

#include <fmt/core.h>

#include "tools/common/abi.h"

namespace assay::tools {

std::vector<std::string> class_names_of(const std::string& folder) {
  std::vector<std::string> names;
  const auto manifest = report_of(Exit::kDataMismatch, assay_dataset_report, text(folder));
  for (const auto& name : at(manifest, "class_names").list_value().values())
    names.push_back(name.string_value());
  return names;
}

std::string class_name(const std::vector<std::string>& names, size_t index) {
  return index < names.size() && !names[index].empty() ? names[index]
                                                       : fmt::format("class {}", index);
}

}  // namespace assay::tools
