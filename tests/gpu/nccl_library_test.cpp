// What the plug-in declares of NCCL beside NCCL's own header, and the library of this machine, as
// far as both are here. Needs no GPU.
#include <gtest/gtest.h>

#include <cstddef>

#include "sdk/backend/cuda/nccl.h"
#include "tests/harness/error_of.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

namespace assay::cuda {
namespace {

#if defined(NCCL_MAJOR)
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(sizeof(NcclConfig) == offsetof(ncclConfig_t, cgaClusterSize) + sizeof(int));
static_assert(NcclConfig{}.magic == ncclConfig_t NCCL_CONFIG_INITIALIZER.magic);
static_assert(NcclConfig{}.version == NCCL_VERSION(2, 14, 0));
static_assert(NcclConfig{}.cluster_size == NCCL_CONFIG_UNDEF_INT);
static_assert(kNcclSuccess == ncclSuccess && kNcclRemoteError == ncclRemoteError &&
              kNcclInProgress == ncclInProgress && kNcclInt8 == ncclInt8);
#endif

TEST(NcclLibrary, IsOpenedWithoutADevice) {
  const Error error = test::error_of([] {
    const Nccl nccl = open_nccl("libnccl.so.2");
    EXPECT_EQ(nccl.version().substr(0, 2), "2.");
    EXPECT_NE(nccl.text(kNcclRemoteError, nullptr).find("NCCL: remote process"), std::string::npos)
        << nccl.text(kNcclRemoteError, nullptr);
  });
  if (error.code() == Code::kUnsupported) GTEST_SKIP() << error.what();
  EXPECT_EQ(error.code(), Code::kOk) << error.what();
}

}  // namespace
}  // namespace assay::cuda
