#include <stdlib.h>

#include <filesystem>

#include "tests/capi/support.h"

namespace assay::test {

TemporaryFolder::TemporaryFolder() {
  char pattern[] = "/tmp/assay_capi_test_XXXXXX";
  path_ = ::mkdtemp(pattern);
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace assay::test
