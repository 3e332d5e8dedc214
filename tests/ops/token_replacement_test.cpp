// MaskTokens, SampleTokens and ReplaceTokens against NumPy
// (tests/fixtures/models/make_sampling.py): equal ids, on every backend and any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/harness/fixture.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr int64_t kSteps = 3;

Tensor tensor(const FixtureTensor& t) {
  return {t.dims, t.i32.empty() ? std::vector<double>(t.f32.begin(), t.f32.end())
                                : std::vector<double>(t.i32.begin(), t.i32.end())};
}

class Sampling : public testing::Test {
 protected:
  Tensor at(int64_t i, const std::string& name) const {
    return tensor(fixture.at(cat(i, ".", name)));
  }
  // Steps beyond 2^32 are kept in two halves.
  Tensor step(int64_t i) const {
    const auto half = [&](const char* name) {
      return static_cast<uint32_t>(fixture.at(name).i32[static_cast<size_t>(i)]);
    };
    return {{}, {half("step.high") * 0x1p32 + half("step.low")}};
  }
  // Every output of the op, in memory of its own and on one to three threads.
  static void expect_equal(const Op& op, const std::vector<Tensor>& inputs,
                           const std::vector<DType>& dtypes, const std::vector<Tensor>& expected) {
    for (const int threads : {1, 2, 3}) {
      const RunResult got = run_node(op, inputs, dtypes, {.threads = threads, .repeats = 2});
      EXPECT_TRUE(got.repeats_equal);
      EXPECT_EQ(got.damage, std::vector<std::string>{});
      ASSERT_EQ(got.outputs.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(decode(got.outputs[i], {DType::kI32, expected[i].dims}).values,
                  expected[i].values)
            << "output " << i;
    }
  }

  Fixture fixture{"models/sampling"};
  Tensor ids = tensor(fixture.at("input.ids")), length = tensor(fixture.at("input.lengths"));
};

TEST_F(Sampling, MaskTokens) {
  for (int64_t i = 0; i < kSteps; ++i) {
    const MaskTokens op{.slots = 7, .cls = 1, .sep = 2, .mask = 3, .seed = 7, .stream = 901};
    expect_equal(op, {ids, length, step(i)}, {DType::kI32, DType::kI32, DType::kI64},
                 {at(i, "masked_ids"), at(i, "positions"), at(i, "labels")});
  }
}

TEST_F(Sampling, SampleTokens) {
  for (int64_t i = 0; i < kSteps; ++i) {
    Tensor samples = at(i, "samples");
    samples.dims = {samples.dims.numel()};
    expect_equal(SampleTokens{7, 902}, {at(i, "logits"), step(i)}, {DType::kF32, DType::kI64},
                 {samples});
  }
}

TEST_F(Sampling, ReplaceTokens) {
  for (int64_t i = 0; i < kSteps; ++i) {
    Tensor samples = at(i, "samples");
    samples.dims = {samples.dims.numel()};
    expect_equal(ReplaceTokens{}, {ids, length, at(i, "positions"), at(i, "labels"), samples},
                 {DType::kI32, DType::kI32, DType::kI32, DType::kI32, DType::kI32},
                 {at(i, "corrupted_ids"), at(i, "replaced")});
  }
}

// Ten thousand draws of one distribution follow it: chi-squared with 60 degrees of freedom, of
// which 99.9 % lie below 99.6; also where logits are bf16, whose probabilities are then those drawn
// from.
TEST(SampleTokens, FollowsTheSoftmax) {
  constexpr int64_t kClasses = 61, kRows = 2000, kRuns = 5;
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Tensor row{{1, kClasses}, {}};
    for (int64_t v = 0; v < kClasses; ++v)
      row.values.push_back(2 * std::sin(static_cast<double>(v * v)));
    row = rounded(row, dtype);
    double total = 0;
    for (const double x : row.values) total += std::exp(x);
    Tensor logits{{kRows, kClasses}, {}};
    for (int64_t r = 0; r < kRows; ++r)
      logits.values.insert(logits.values.end(), row.values.begin(), row.values.end());
    std::vector<double> found(kClasses, 0);
    for (int64_t run = 0; run < kRuns; ++run) {
      const Tensor step{{}, {static_cast<double>(run)}};
      const RunResult got = run_node(SampleTokens{3, 4}, {logits, step}, {dtype, DType::kI64});
      for (const double id : decode(got.outputs[0], {DType::kI32, {kRows}}).values)
        ++found.at(static_cast<size_t>(id));
    }
    double chi = 0;
    for (int64_t v = 0; v < kClasses; ++v) {
      const double expected = kRuns * kRows * std::exp(row.values[v]) / total;
      chi += (found[v] - expected) * (found[v] - expected) / expected;
    }
    EXPECT_LT(chi, 99.6) << to_text(dtype);
  }
}

// Rows that say nothing give id 0, and places that are none are left alone.
TEST(SampleTokens, DrawsFromNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits{{3, 2}, {nan, nan, -infinity, -infinity, -infinity, 1}};
  const RunResult got = run_node(SampleTokens{}, {logits, {{}, {0}}}, {DType::kF32, DType::kI64});
  EXPECT_EQ(decode(got.outputs[0], {DType::kI32, {3}}).values, (std::vector<double>{0, 0, 1}));
}

TEST(ReplaceTokens, LeavesOutWhatIsNowhere) {
  const DType i32 = DType::kI32;
  const RunResult got = run_node(ReplaceTokens{},
                                 {{{1, 3}, {5, 6, 7}},
                                  {{1}, {9}},
                                  {{1, 3}, {-1, 3, 1}},
                                  {{1, 3}, {5, 5, 6}},
                                  {{3}, {8, 8, 8}}},
                                 {i32, i32, i32, i32, i32});
  EXPECT_EQ(got.damage, std::vector<std::string>{});
  EXPECT_EQ(decode(got.outputs[0], {i32, {1, 3}}).values, (std::vector<double>{5, 8, 7}));
  EXPECT_EQ(decode(got.outputs[1], {i32, {1, 3}}).values, (std::vector<double>{0, 1, 0}));
}

}  // namespace
}  // namespace assay::test
