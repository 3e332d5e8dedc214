// ActivationGradSums, which only GPUs have.
#include <gtest/gtest.h>

#include "tests/harness/activation_reference.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

double derivative(ActivationKind kind, double saved) {
  if (gradient_reads_output(kind)) return derivative_reference(kind, saved);
  constexpr double kStep = 1e-5;
  return (activation_reference(kind, saved + kStep) - activation_reference(kind, saved - kStep)) /
         (2 * kStep);
}

// inputs saved, dy; outputs dx, sums
std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const ActivationKind kind = std::get<ActivationGradSums>(op).activation;
  const auto channels = static_cast<size_t>(x[0].dims.back());
  Tensor dx = x[1], sums{{x[0].dims.back()}, std::vector<double>(channels)};
  for (size_t i = 0; i < dx.values.size(); ++i) {
    dx.values[i] *= derivative(kind, x[0].values[i]);
    sums.values[i % channels] += dx.values[i];
  }
  return {dx, sums};
}

TEST(ActivationGradSums, Values) {
  if (make_backend_under_test(1)->target().kind != Target::Kind::kCuda)
    GTEST_SKIP() << "is for GPUs";
  for (const ActivationKind kind : all_activations()) {
    if (kind == ActivationKind::kNone) continue;
    for (const Dims& dims :
         {Dims{1, 1}, Dims{7, 5}, Dims{3, 4, 5, 17}, Dims{600, 24}, Dims{2, 3072}})
      check_op({cat(to_text(dims), " of ", static_cast<int>(kind)),
                ActivationGradSums{kind},
                {{dims, {}, Recipe::uniform(0.125, 0.875)}, {dims}},
                {.terms = dims.numel() / dims.back(), .ulps = activation_ulps(kind)}},
               reference);
  }
}

}  // namespace
}  // namespace assay::test
