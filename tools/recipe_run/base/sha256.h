// SHA-256 as lower-case hexadecimal text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reciperun {

std::string sha256_hex(std::string_view bytes);

// Of a file, read in pieces. Fails (Exit::kUsage) if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace reciperun
