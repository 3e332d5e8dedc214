// WeightedFusion and its gradient: two and three images, halved ones among them, with and without
// swish.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<WeightedFusion>(op);
  double total = p.epsilon;
  for (const double w : x[0].values) total += w;
  size_t largest = 1;
  for (size_t i = 2; i < x.size(); ++i)
    if (x[i].dims.numel() > x[largest].dims.numel()) largest = i;
  const Dims& dims = x[largest].dims;
  Tensor y{dims, {}};
  for (int64_t e = 0; e < dims.numel(); ++e) {
    const int64_t c = e % dims[3], w = e / dims[3] % dims[2], r = e / (dims[3] * dims[2]);
    double sum = 0;
    for (size_t i = 1; i < x.size(); ++i) {
      const int64_t times = dims[1] / x[i].dims[1];
      const int64_t at = ((r / times) * (dims[2] / times) + w / times) * dims[3] + c;
      sum += x[0].values[i - 1] / total * x[i].values[static_cast<size_t>(at)];
    }
    y.values.push_back(p.activation == ActivationKind::kSwish ? sum / (1 + std::exp(-sum)) : sum);
  }
  return {y};
}

OpCase case_of(const Dims& dims, const std::vector<bool>& is_half, ActivationKind activation) {
  const auto n = static_cast<int64_t>(is_half.size());
  const Dims half{dims[0], dims[1] / 2, dims[2] / 2, dims[3]};
  OpCase c{cat(to_text(dims), " ", n, activation == ActivationKind::kSwish ? " swish" : ""),
           WeightedFusion{.activation = activation},
           {{{n}, DType::kF32, Recipe::uniform(0.5, 1.5)}}};
  for (const bool halved : is_half) {
    c.name += halved ? " half" : " full";
    c.inputs.push_back({halved ? half : dims, {}, Recipe::uniform(-2, 2)});
  }
  for (int i = 0; i <= n; ++i) c.gradients.push_back(i);
  c.accuracy = {.terms = n, .magnitude = 2, .ulps = 8};
  return c;
}

TEST(WeightedFusion, ValuesAndGradients) {
  using Halves = std::vector<bool>;
  for (const ActivationKind activation : {ActivationKind::kNone, ActivationKind::kSwish}) {
    for (const Dims& dims : {Dims{1, 2, 2, 1}, Dims{2, 4, 6, 5}, Dims{1, 4, 2, 24}}) {
      for (const Halves& is_half :
           {Halves{false, false}, Halves{false, true}, Halves{true, false},
            Halves{false, false, false}, Halves{false, true, false}, Halves{true, false, true}})
        check_op(case_of(dims, is_half, activation), reference);
    }
    check_op(case_of({1, 3, 5, 7}, {false, false}, activation), reference);    // odd sizes
    check_op(case_of({1, 2, 2, 1030}, {false, true}, activation), reference);  // many channels
  }
  for (const Halves& is_half : {Halves{false, true, false}, Halves{false, false}})  // many tasks
    check_op(case_of({2, 32, 16, 32}, is_half, ActivationKind::kSwish), reference);
}

TEST(WeightedFusion, RefusesImagesThatDoNotFit) {
  const auto emit = [](const std::vector<Dims>& images, ActivationKind activation) {
    Graph g;
    std::vector<ValueId> x{
        g.emit1(Input{"w", DType::kF32, {static_cast<int64_t>(images.size())}}, {})};
    for (const Dims& dims : images) x.push_back(g.emit1(Input{"x", DType::kF32, dims}, {}));
    g.emit(WeightedFusion{.activation = activation}, x);
  };
  using enum ActivationKind;
  const Dims dims{1, 4, 4, 3};
  EXPECT_NO_THROW(emit({dims, {1, 2, 2, 3}}, kSwish));
  EXPECT_THROW(emit({dims}, kNone), Error);
  EXPECT_THROW(emit({dims, dims, dims, dims}, kNone), Error);
  EXPECT_THROW(emit({dims, {1, 4, 4, 2}}, kNone), Error);
  EXPECT_THROW(emit({dims, {1, 2, 4, 3}}, kNone), Error);
  EXPECT_THROW(emit({{1, 5, 4, 3}, {1, 2, 2, 3}}, kNone), Error);
  EXPECT_THROW(emit({{4, 4, 3}, {4, 4, 3}}, kNone), Error);
  EXPECT_THROW(emit({dims, dims}, kRelu), Error);
}

}  // namespace
}  // namespace assay::test
