// The harness must notice what it claims to notice.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

TEST(Harness, NoticesAWrongValue) {
  const OpCase fill{"one", Fill{{2}, 1}, {}};
  const Reference off_by_a_few_ulps = [](const Op&, const std::vector<Tensor>&) {
    return std::vector<Tensor>{{{2}, {1, 1 + 0x1p-20}}};
  };
  EXPECT_NONFATAL_FAILURE(check_values(fill, DType::kF32, off_by_a_few_ulps), "output 0[1] is 1");
}

TEST(Harness, NoticesAnUnwrittenElement) {
  const Tensor nan{{1}, {std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_NONFATAL_FAILURE(expect_close("y", nan, {{1}, {0}}, DType::kF32, DType::kF32, {}), "y[0]");
}

TEST(Harness, TolerancesGrowWithTheSumAndTheType) {
  const Tensor one{{1}, {1}}, near{{1}, {1 + 0x1p-19}};
  EXPECT_NONFATAL_FAILURE(expect_close("y", near, one, DType::kF32, DType::kF32, {}), "y[0]");
  expect_close("y", near, one, DType::kF32, DType::kF32, {.terms = 100});
  expect_close("y", near, one, DType::kBf16, DType::kBf16, {});
}

TEST(Harness, ConvertsEveryType) {
  const Tensor t{{3}, {1, -2, 100}};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF64, DType::kI32, DType::kI64})
    EXPECT_EQ(rounded(t, dtype).values, t.values) << to_text(dtype);
  EXPECT_EQ(rounded({{1}, {1 + 0x1p-8}}, DType::kBf16).values[0], 1);  // tie to even
}

TEST(Harness, FeedsAnyValueAndRunsOnlyWhatIsNeeded) {
  OneNode one = make_node(Pointwise{add_code(), {}}, {{DType::kF32, {2}}, {DType::kF32, {2}}});
  const ValueId y = one.outputs[0];
  const ValueId z = one.graph.emit1(Reshape{{2, 1}}, {y});
  const Bytes data = encode({{2}, {3, 4}}, DType::kF32);
  const RunResult result = run_graph(one.graph, {{y, data}}, {z});
  EXPECT_EQ(result.kernels.size(), 1u);  // the reshape; the addition has no inputs to run on
  EXPECT_EQ(result.outputs[0], data);
}

}  // namespace
}  // namespace assay::test
