#include <stdlib.h>

#include <filesystem>

#include "tests/capi/support.h"

namespace assay::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "assay_capi_test_XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace assay::test
