#include <gtest/gtest.h>

#include <cmath>

#include "sdk/base/philox.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

// Word e of the sequence (seed, stream, step) decides about element e.
std::vector<Tensor> dropout_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Dropout>(op);
  PhiloxStream stream(p.seed, p.stream, static_cast<uint64_t>(x[1].values[0]));
  Tensor y = x[0];
  for (double& v : y.values) {
    const bool keep = stream.bits() >= std::nearbyint(static_cast<double>(p.rate) * 0x1p32);
    v = keep ? v / (1 - static_cast<double>(p.rate)) : 0;
  }
  return {y};
}

OpCase dropout_case(const Dims& dims, const Dropout& op, double step) {
  return {to_text(dims), op, {{dims}, {{}, DType::kI64, Recipe::listed({step})}}, {.ulps = 1}, {0}};
}

// The same reference serves the gradient: the mask must be the forward's.
TEST(Dropout, DrawsTheEnginesPhilox) {
  check_op({dropout_case({1}, {0.5f, 1, 2}, 0), dropout_case({3, 17}, {0.1f, 1, 2}, 7),
            dropout_case({50001}, {0.9f, 0x123456789abcdefu, 1u << 31}, 5e9),
            dropout_case({5, 5}, {0.0f, 1, 2}, 3)},
           dropout_reference);
}

Tensor draw(const Dropout& op, double step) {
  const Dims dims{100000};
  const RunResult got = run_node(op, {{dims, std::vector<double>(100000, 1.0)}, {{}, {step}}},
                                 {DType::kF32, DType::kI64});
  return decode(got.outputs[0], {DType::kF32, dims});
}

TEST(Dropout, DropsAtItsRate) {
  for (const float rate : {0.1f, 0.5f, 0.8f}) {
    double dropped = 0;
    for (const double v : draw({rate, 3, 4}, 1).values) dropped += v == 0;
    const double deviation = std::sqrt(100000.0 * rate * (1 - rate));
    EXPECT_NEAR(dropped, 100000.0 * rate, 4 * deviation);
  }
}

TEST(Dropout, SeedStreamAndStepAllChangeTheMask) {
  const Tensor base = draw({0.5f, 3, 4}, 1);
  for (const Tensor& other :
       {draw({0.5f, 2, 4}, 1), draw({0.5f, 3, 5}, 1), draw({0.5f, 3, 4}, 2)}) {
    double equal = 0;
    for (size_t i = 0; i < base.values.size(); ++i) equal += base.values[i] == other.values[i];
    EXPECT_NEAR(equal, 50000, 4 * std::sqrt(25000.0));
  }
}

}  // namespace
}  // namespace assay::test
