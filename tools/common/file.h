// Whole files.
#pragma once

#include <filesystem>
#include <string>

namespace assay::tools {

// The bytes of a file. Fails (Error kDataMismatch) if it cannot be opened.
std::string read_file(const std::filesystem::path& path);

}  // namespace assay::tools
