// Which kernels the CPU backend takes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sdk/graph/elementwise.h"
#include "tests/harness/run_node.h"

namespace assay::test {
namespace {

std::string add_kernel() {
  return run_node(Pointwise{add_code(), {}}, {{{1}, {1}}, {{1}, {2}}}, {DType::kF32, DType::kF32})
      .kernels.back();
}

TEST(Kernels, UseWhatTheProcessorHasOrTheEnvironmentAllows) {
  const char* const wanted = std::getenv("ASSAY_CPU_ISA");
  std::string expected = "baseline";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) expected = "avx2";
  if (__builtin_cpu_supports("avx512bw")) expected = "avx512";
#endif
  if (wanted != nullptr && (std::string(wanted) == "baseline" || expected == "avx512"))
    expected = wanted;
  EXPECT_EQ(add_kernel(), "own:pointwise:" + expected);
}

TEST(Kernels, OfConvolutionsAreOneDnns) {
  const RunResult result =
      run_node(Conv2d{}, {{{1, 1, 1, 1}, {2}}, {{1, 1, 1, 1}, {3}}}, {DType::kF32, DType::kF32});
  EXPECT_EQ(result.kernels[0].substr(0, 5), "dnnl:") << result.kernels[0];
}

// decisions/0019
TEST(Kernels, OfFiltersGradientsAreProductsInTiles) {
  const auto kernel = [](const Op& op, const Dims& a, const Dims& b) {
    const std::vector<Tensor> inputs{{a, std::vector<double>(a.numel())},
                                     {b, std::vector<double>(b.numel())}};
    return run_node(op, inputs, {DType::kBf16, DType::kBf16}).kernels[0];
  };
  if (kernel(Matmul{}, {64, 64}, {64, 64}).find("amx") == std::string::npos)
    GTEST_SKIP() << "the processor has no AMX";
  EXPECT_EQ(kernel(Conv2dGradWeight{.geometry = {.stride = {2, 2}}, .w_dims = {32, 1, 1, 16}},
                   {1, 5, 5, 16}, {1, 3, 3, 32})
                .substr(0, 12),
            "own:columns:");
  EXPECT_EQ(kernel(Conv2dGradWeight{.w_dims = {256, 3, 3, 16}}, {1, 5, 5, 16}, {1, 3, 3, 256})
                .substr(0, 12),
            "own:columns:");
}

}  // namespace
}  // namespace assay::test
