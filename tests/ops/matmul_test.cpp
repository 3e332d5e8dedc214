#include <gtest/gtest.h>

#include "tests/harness/activation_reference.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> matmul_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Matmul>(op);
  const Dims &a = x[0].dims, &b = x[1].dims;
  const int64_t m = a[p.transpose_a ? 1 : 0], n = b[p.transpose_b ? 0 : 1];
  const int64_t inner = a[p.transpose_a ? 0 : 1];
  Tensor y{{m, n}, {}};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = p.has_bias ? x[2].values[static_cast<size_t>(j)] : 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += x[0].values[static_cast<size_t>(p.transpose_a ? k * m + i : i * inner + k)] *
               x[1].values[static_cast<size_t>(p.transpose_b ? j * inner + k : k * n + j)];
      y.values.push_back(activation_reference(p.activation, sum));
    }
  return {y};
}

// The op in each data type it can have as input and as result.
void check(OpCase c, Matmul p) {
  c.thread_invariant = false;
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kF32},
                                 {DType::kBf16, DType::kBf16},
                                 {DType::kBf16, DType::kF32}}) {
    p.dtype = to;
    c.op = p;
    c.dtypes = {from};
    SCOPED_TRACE(cat("to ", to));
    check_op(c, matmul_reference);
  }
}

struct Sizes {
  int64_t m, n, k;
};

TEST(Matmul, EverySizeAndTransposition) {
  for (const auto [m, n, k] : {Sizes{1, 1, 1}, Sizes{1, 10, 64}, Sizes{5, 1, 17}, Sizes{3, 17, 5},
                               Sizes{16, 32, 64}, Sizes{33, 65, 129}, Sizes{7, 10, 300}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Dims a = ta ? Dims{k, m} : Dims{m, k}, b = tb ? Dims{n, k} : Dims{k, n};
        check({.name = cat(m, "x", n, "x", k, ta ? " a^T" : "", tb ? " b^T" : ""),
               .op = {},
               .inputs = {{a}, {b}},
               .accuracy = {.terms = k},
               .gradients = {0, 1}},
              {.transpose_a = ta, .transpose_b = tb});
      }
    }
  }
}

TEST(Matmul, EveryEpilogue) {
  for (const ActivationKind kind : all_activations()) {
    for (const bool bias : {false, true}) {
      OpCase c{.name = cat(static_cast<int>(kind), bias ? " bias" : ""),
               .op = {},
               .inputs = {{{6, 33}}, {{10, 33}, {}, Recipe::uniform(-0.2, 0.2)}},
               .accuracy = {.terms = 33, .ulps = activation_ulps(kind)}};
      if (bias) c.inputs.push_back({{10}, DType::kF32});
      if (kind != ActivationKind::kGelu && kind != ActivationKind::kSwish) {
        c.gradients = {0, 1};
        if (bias) c.gradients.push_back(2);
      }
      check(c, {.transpose_b = true, .has_bias = bias, .activation = kind});
    }
  }
}

TEST(Matmul, RefusesInnerSizesThatDiffer) {
  EXPECT_THROW(make_node(Matmul{}, {{DType::kF32, {2, 3}}, {DType::kF32, {4, 5}}}), Error);
}

}  // namespace
}  // namespace assay::test
