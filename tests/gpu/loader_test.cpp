// Asking for a CUDA device on machines that have none: an error that says why, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/backend/cuda/loader.h"
#include "sdk/base/error.h"
#include "sdk/graph/elementwise.h"

namespace assay::cuda {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

TEST(Devices, AreListedOrTheReasonIsGiven) {
  const std::vector<Device>& all = devices();
  ASSERT_FALSE(all.empty());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].info.kind, "cuda");
    EXPECT_EQ(all[i].info.index, static_cast<int>(i));
    EXPECT_TRUE(!all[i].unavailable_reason.empty() || all[i].target.compute_capability >= 80);
  }
#if defined(ASSAY_WITH_CUDA)
  // The plug-in is there and can be loaded: what is missing is the driver or the device.
  EXPECT_THAT(all[0].unavailable_reason, Not(HasSubstr("built or installed without CUDA")));
  EXPECT_THAT(all[0].unavailable_reason, Not(HasSubstr("another build")));
  EXPECT_THAT(all[0].unavailable_reason,
              AnyOf("", HasSubstr("no NVIDIA driver"), HasSubstr("driver is too old"),
                    HasSubstr("no CUDA device"), HasSubstr("compute capability")));
#else
  EXPECT_THAT(all[0].unavailable_reason, HasSubstr("built or installed without CUDA"));
#endif
}

TEST(Devices, ThatCannotBeUsedAreAnErrorWithTheReason) {
  const std::string& reason = devices()[0].unavailable_reason;
  if (reason.empty()) GTEST_SKIP() << "this machine has a CUDA device";
  try {
    make_backend({.index = 0});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }
}

#if defined(ASSAY_WITH_CUDA)
TEST(Planner, NeedsNoDevice) {
  const auto backend = make_planner(Target::h200());
  EXPECT_EQ(backend->info().name, "NVIDIA H200");
  EXPECT_TRUE(backend->target().has_f16);
  Graph graph;
  const ValueId x = graph.emit1(Input{"x", DType::kF16, {8, 4, 4, 16}}, {});
  activation(graph, x, ActivationKind::kRelu);
  EXPECT_EQ(backend->plan(graph, {1}).kernel, "own:pointwise");
}

// Errors are recognised on this side of the border.
TEST(Planner, RaisesTheEnginesErrors) {
  const auto backend = make_planner(Target::h200());
  Graph graph;
  const ValueId x = graph.emit1(Input{"x", DType::kF32, {1, 512, 512, 1}}, {});
  const MaxPool pool{{.window = {300, 300}, .stride = {1, 1}}};
  const ValueId y = graph.emit1(pool, {x});
  graph.emit1(MaxPoolGrad{pool.geometry}, {x, y});
  try {
    backend->plan(graph, {2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
  }
}
#endif

}  // namespace
}  // namespace assay::cuda
