#include "tools/common/file.h"

#include <fmt/core.h>

#include <fstream>
#include <iterator>

#include "tools/common/error.h"

namespace assay::tools {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Exit::kDataMismatch, fmt::format("cannot read '{}'", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace assay::tools
