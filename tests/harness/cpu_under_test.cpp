#include "sdk/backend/cpu/device.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {

std::unique_ptr<Backend> make_backend_under_test(int threads, bool) {
  return cpu::make_backend({.threads = threads});
}

std::shared_ptr<Backend> shared_backend_under_test(int threads, bool) {
  return make_backend_under_test(threads);
}

bool libraries_need_alignment() { return false; }

bool convolutions_are_of_one_type() { return false; }

}  // namespace assay::test
