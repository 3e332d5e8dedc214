// In fp32 all 24 bits of the operands count. GPUs' libraries would rather round them to the 11 of
// TF32, which the tolerances of the other tests hardly notice.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/harness/run_node.h"

namespace assay::test {
namespace {

constexpr double kFine = 0x1p-12;  // 1 + kFine rounds to 1 in TF32

struct Case {
  std::string name;
  Op op;
  std::vector<Dims> inputs;  // the op is linear in the first and in the second
};

// Values of {-1, 0, 1}, or of {-1, 1}: exact in every type.
Tensor random_signs(const Dims& dims, std::mt19937& random, bool zeros) {
  Tensor t{dims, {}};
  for (int64_t i = 0; i < dims.numel(); ++i) {
    const auto draw = static_cast<int>(random() % (zeros ? 3 : 2));
    t.values.push_back(zeros ? draw - 1 : 2 * draw - 1);
  }
  return t;
}

std::vector<double> result_of(const Case& c, const std::vector<Tensor>& inputs) {
  const std::vector<DType> dtypes(inputs.size(), DType::kF32);
  const Bytes result = run_node(c.op, inputs, dtypes).outputs[0];
  const auto count = static_cast<int64_t>(result.size() / sizeof(float));
  return decode(result, {DType::kF32, {count}}).values;
}

double length(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

class FullPrecision : public testing::TestWithParam<Case> {};

// op(a + fine b) = op(a) + fine op(b), where the right side needs few bits of the operands.
TEST_P(FullPrecision, CountsBitsThatTf32Drops) {
  const Case& c = GetParam();
  std::mt19937 random(7);
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    std::vector<Tensor> coarse;
    for (const Dims& dims : c.inputs) coarse.push_back(random_signs(dims, random, false));
    for (size_t i = 2; i < coarse.size(); ++i)
      for (double& v : coarse[i].values) v = 0;  // a bias
    std::vector<Tensor> part = coarse, whole = coarse;
    part[operand] = random_signs(c.inputs[operand], random, true);
    for (size_t i = 0; i < part[operand].values.size(); ++i)
      whole[operand].values[i] += kFine * part[operand].values[i];
    const std::vector<double> base = result_of(c, coarse), rest = result_of(c, part);
    std::vector<double> missing = result_of(c, whole);
    for (size_t i = 0; i < missing.size(); ++i) missing[i] -= base[i] + kFine * rest[i];
    ASSERT_GT(length(rest), 0) << "operand " << operand;
    EXPECT_LT(length(missing), 0.1 * kFine * length(rest)) << "operand " << operand;
  }
}

constexpr ConvGeometry kSame{.pad_begin = {1, 1}, .pad_end = {1, 1}};
const Dims kImages{2, 12, 12, 32}, kFilters{64, 3, 3, 32}, kResult{2, 12, 12, 64};

INSTANTIATE_TEST_SUITE_P(
    Fp32, FullPrecision,
    testing::Values(
        Case{"matmul", Matmul{}, {{64, 128}, {128, 64}}},
        Case{"matmul_transposed", Matmul{.transpose_b = true}, {{64, 128}, {64, 128}}},
        Case{"matmul_bias", Matmul{.has_bias = true}, {{64, 128}, {128, 64}, {64}}},
        Case{"conv2d", Conv2d{.geometry = kSame}, {kImages, kFilters}},
        Case{"conv2d_1x1", Conv2d{}, {kImages, {64, 1, 1, 32}}},
        Case{"conv2d_bias", Conv2d{.geometry = kSame, .has_bias = true}, {kImages, kFilters, {64}}},
        Case{"conv2d_grad_data", Conv2dGradData{kSame, kImages}, {kResult, kFilters}},
        Case{"conv2d_grad_weight", Conv2dGradWeight{kSame, kFilters}, {kImages, kResult}}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace assay::test
