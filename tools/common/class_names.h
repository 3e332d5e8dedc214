// Names of classes, as the manifests of data sets hold them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay::tools {

// Of the data set in a folder; none if it names none. Fails (Error kDataMismatch) for a folder
// without one.
std::vector<std::string> class_names_of(const std::string& folder);

// "class 7" for one without a name: data sets leave the numbers that they do not use empty.
std::string class_name(const std::vector<std::string>& names, size_t index);

}  // namespace assay::tools
