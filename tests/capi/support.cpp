#include "tests/capi/support.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

namespace assay::test {

Printed printed_by(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Printed printed;
  std::array<char, 4096> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    printed.all.append(buffer.data(), n);
  printed.code = WEXITSTATUS(pclose(pipe));
  return printed;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "assay_capi_test_XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace assay::test
