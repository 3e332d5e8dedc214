#include "sdk/backend/cpu/device.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {

std::unique_ptr<Backend> make_backend_under_test(int threads) {
  return cpu::make_backend({.threads = threads});
}

bool libraries_need_alignment() { return false; }

}  // namespace assay::test
