#include "tests/gpu/emulation/emulated_backend.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {

std::unique_ptr<Backend> make_backend_under_test(int) { return make_emulated_backend(); }

bool libraries_need_alignment() { return false; }

}  // namespace assay::test
