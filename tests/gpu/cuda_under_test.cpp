#include <gtest/gtest.h>

#include "sdk/backend/cuda/loader.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {
namespace {

// Every test of this program needs the device.
class NeedsDevice : public testing::Environment {
 public:
  void SetUp() override {
    const std::string& reason = cuda::devices()[0].unavailable_reason;
    if (!reason.empty()) GTEST_SKIP() << "no CUDA device can be used: " << reason;
  }
};
const testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new NeedsDevice);  // GoogleTest owns it

}  // namespace

std::unique_ptr<Backend> make_backend_under_test(int) { return cuda::make_backend({}); }

bool libraries_need_alignment() { return true; }

}  // namespace assay::test
