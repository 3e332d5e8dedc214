// Pointwise and SumTo: every step, broadcasting, types, gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sdk/base/float16.h"
#include "sdk/graph/text.h"
#include "sdk/ops/broadcast.h"
#include "tests/harness/error_of.h"
#include "tests/harness/graph_text.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

using Fn = PointwiseFn;
using Operand = PointwiseOperand;

Operand x(int i) { return Operand::input(i); }
Operand s(int i) { return Operand::step(i); }

double apply(Fn fn, double a, double b, double c, double d) {
  switch (fn) {
    case Fn::kAdd:
      return a + b;
    case Fn::kSub:
      return a - b;
    case Fn::kMul:
      return a * b;
    case Fn::kDiv:
      return a / b;
    case Fn::kMax:
      return a > b ? a : b;
    case Fn::kMin:
      return a < b ? a : b;
    case Fn::kMulAdd:
      return a * b + c;
    case Fn::kSelect:
      return a <= b ? c : d;
    case Fn::kExp:
      return std::exp(a);
    case Fn::kExpm1:
      return std::expm1(a);
    case Fn::kTanh:
      return std::tanh(a);
    case Fn::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case Fn::kErf:
      return std::erf(a);
    case Fn::kBf16:
      return rounded({{1}, {a}}, DType::kBf16).values[0];
    case Fn::kF16:
      return rounded({{1}, {a}}, DType::kF16).values[0];
  }
  return 0;
}

// Where element i of `whole` stands in `part`.
size_t place_in(const Dims& part, const Dims& whole, size_t i) {
  size_t place = 0, stride = 1;
  for (int axis = whole.rank() - 1; axis >= 0; --axis) {
    const auto size = static_cast<size_t>(whole[axis]);
    const auto own = static_cast<size_t>(aligned_size(part, whole.rank(), axis));
    if (own > 1) place += i % size * stride;
    stride *= own;
    i /= size;
  }
  return place;
}

Dims largest(const std::vector<Tensor>& inputs) {
  Dims dims = inputs[0].dims;
  for (const Tensor& input : inputs) {
    const int rank = std::max(dims.rank(), input.dims.rank());
    Dims both = dims.rank() == rank ? dims : input.dims;
    for (int axis = 0; axis < rank; ++axis)
      both[axis] = std::max(aligned_size(dims, rank, axis), aligned_size(input.dims, rank, axis));
    dims = both;
  }
  return dims;
}

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& inputs) {
  const PointwiseCode& code = std::get<Pointwise>(op).code;
  Tensor y{largest(inputs), {}};
  for (size_t i = 0; i < static_cast<size_t>(y.dims.numel()); ++i) {
    std::vector<double> steps;
    for (const PointwiseStep& step : code.steps) {
      double v[4] = {};
      for (size_t k = 0; k < 4; ++k) {
        const Operand& operand = step.operands[k];
        const auto index = static_cast<size_t>(operand.index);
        v[k] = operand.kind == Operand::Kind::kNumber ? static_cast<double>(operand.number)
               : operand.kind == Operand::Kind::kStep
                   ? steps[index]
                   : inputs[index].values[place_in(inputs[index].dims, y.dims, i)];
      }
      steps.push_back(apply(step.fn, v[0], v[1], v[2], v[3]));
    }
    y.values.push_back(steps.back());
  }
  return {y};
}

Pointwise wide(PointwiseCode code) { return {std::move(code), DType::kF32}; }

const std::vector<Dims> kShapes{{1}, {3, 17}, {5, 7, 33}, {20011}};

TEST(Pointwise, EveryFunctionOfTwoOperands) {
  for (const Fn fn : {Fn::kAdd, Fn::kSub, Fn::kMul, Fn::kDiv, Fn::kMax, Fn::kMin}) {
    for (const Dims& dims : kShapes) {
      const Argument a{dims, {}, Recipe::uniform(-2, 2)}, b{dims, {}, Recipe::uniform(0.5, 3)};
      check_op({cat(to_text(fn)), wide({fn, {x(0), x(1)}}), {a, b}, {.magnitude = 4}, {0, 1}},
               reference);
    }
    check_op({cat(to_text(fn), " of a number"),
              wide({fn, {1.5f, x(0)}}),
              {{{999}, {}, Recipe::uniform(0.5, 3)}},
              {.magnitude = 4},
              {0}},
             reference);
  }
}

TEST(Pointwise, EveryFunctionOfOneOperand) {
  for (const Fn fn : {Fn::kExp, Fn::kExpm1, Fn::kTanh, Fn::kSigmoid, Fn::kErf}) {
    for (const Dims& dims : kShapes) {
      check_op({cat(to_text(fn)),
                wide({fn, {x(0)}}),
                {{dims, {}, Recipe::uniform(-3, 3)}},
                {.magnitude = 1, .ulps = 8},
                {0}},
               reference);
    }
  }
}

TEST(Pointwise, MulAddAndSelect) {
  for (const Dims& dims : kShapes) {
    const Argument any{dims, {}, Recipe::uniform(-2, 2)};
    check_op({"mul_add",
              wide({Fn::kMulAdd, {x(0), x(1), x(2)}}),
              {any, any, any},
              {.magnitude = 4},
              {0, 1, 2}},
             reference);
    check_op(
        {"select", wide({Fn::kSelect, {x(0), x(1), x(2), x(3)}}), {any, any, any, any}, {}, {2, 3}},
        reference);
    check_op({"gate", wide({Fn::kSelect, {x(0), 0.0f, 0.0f, x(1)}}), {any, any}, {}, {1}},
             reference);
  }
}

TEST(Pointwise, RepeatsAxesOfOneAndMissingOnes) {
  const Dims whole{2, 5, 3, 7};
  for (const Dims& part : std::vector<Dims>{{7},
                                            {1},
                                            {},
                                            {2, 1, 1, 7},
                                            {2, 5, 3, 1},
                                            {5, 1, 7},
                                            {1, 5, 1, 1},
                                            {2, 1, 3, 1},
                                            {3, 1},
                                            {1, 1, 1, 7}}) {
    const Argument a{whole, {}, Recipe::uniform(-1, 1)}, b{part, {}, Recipe::uniform(-1, 1)};
    check_op({cat("mul by ", part),
              wide({Fn::kMul, {x(0), x(1)}}),
              {a, b},
              {.terms = 210, .magnitude = 4},
              {0, 1}},
             reference);
    check_op({cat("add before ", part),
              wide({Fn::kAdd, {x(1), x(0)}}),
              {b, a},
              {.terms = 210, .magnitude = 4},
              {0, 1}},
             reference);
  }
}

// Longer than a block, and cut among threads, at places that no period divides.
TEST(Pointwise, RepeatsInLargeTensors) {
  for (const auto& [whole, part] :
       std::vector<std::pair<Dims, Dims>>{{{331, 67}, {67}},
                                          {{67, 331}, {331}},
                                          {{67, 331}, {67, 1}},
                                          {{4, 40, 47, 3}, {3}},
                                          {{4, 40, 47, 3}, {4, 1, 1, 3}},
                                          {{23000}, {}}}) {
    check_op({cat(whole, " by ", part),
              wide({Fn::kMul, {x(0), x(1)}}),
              {{whole}, {part}},
              {.terms = 23000, .magnitude = 1},
              {0, 1}},
             reference);
  }
}

// An input whose own size is smaller than the result's, and no input that has all of it.
TEST(Pointwise, NoInputNeedsTheWholeShape) {
  check_op({"outer",
            wide({Fn::kMul, {x(0), x(1)}}),
            {{{5, 1}}, {{1, 9}}},
            {.terms = 9, .magnitude = 4},
            {0, 1}},
           reference);
}

// w0 x0 + w1 x1 by the sum of the weights and a little, times a sigmoid of itself.
PointwiseCode weighted_fusion() {
  PointwiseCode code;
  const Operand sum = code.append(
      Fn::kAdd, {code.append(Fn::kMul, {x(0), x(2)}), code.append(Fn::kMul, {x(1), x(3)})});
  const Operand weight = code.append(Fn::kAdd, {code.append(Fn::kAdd, {x(2), x(3)}), 1e-4f});
  const Operand mean = code.append(Fn::kDiv, {sum, weight});
  code.append(Fn::kMul, {mean, code.append(Fn::kSigmoid, {mean})});
  return code;
}

TEST(Pointwise, ChainsOfManySteps) {
  const Argument image{{2, 5, 6, 7}, {}, Recipe::uniform(-2, 2)};
  const Argument weight{{}, DType::kF32, Recipe::uniform(0.5, 1)};
  check_op({"fusion",
            wide(weighted_fusion()),
            {image, image, weight, weight},
            {.terms = 420, .magnitude = 8, .ulps = 12},
            {0, 1, 2, 3}},
           reference);
  PointwiseCode longest;
  longest.append(Fn::kMul, {x(0), 0.5f});
  for (int i = 1; i < kMostPointwiseSteps; ++i)
    longest.append(i % 2 == 0 ? Fn::kTanh : Fn::kMulAdd,
                   {s(i - 1), 0.25f * static_cast<float>(i), x(0)});
  check_op({"longest", wide(longest), {{{777}}}, {.magnitude = 8, .ulps = 100}}, reference);
}

// Forward and backward are then more than a node holds.
TEST(Pointwise, TheLargestCodesHaveGradients) {
  PointwiseCode longest;
  longest.append(Fn::kMul, {x(0), 0.5f});
  for (int i = 1; i < kMostPointwiseSteps; ++i)
    longest.append(i % 2 == 0 ? Fn::kTanh : Fn::kMulAdd, {s(i - 1), 0.5f, x(1)});
  const Argument any{{5, 31}, {}, Recipe::uniform(-1, 1)}, row{{31}, {}, Recipe::uniform(-1, 1)};
  check_op({"longest", wide(longest), {any, row}, {.terms = 60, .magnitude = 8}, {0, 1}},
           reference);
  PointwiseCode widest;
  Operand product = widest.append(Fn::kMul, {x(0), x(1)});
  for (int i = 2; i < kMostPointwiseInputs; ++i) product = widest.append(Fn::kMul, {product, x(i)});
  widest.append(Fn::kTanh, {product});
  const Argument factor{{5, 31}, {}, Recipe::uniform(0.5, 1.25)};
  check_op({"widest",
            wide(widest),
            std::vector<Argument>(kMostPointwiseInputs, factor),
            {.terms = 8, .magnitude = 8},
            {0, 3, 7}},
           reference);
}

TEST(Pointwise, MixesTypesAndRoundsOnce) {
  const Argument narrow{{9, 31}}, full{{9, 31}, DType::kF32}, row{{31}, DType::kF32};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    PointwiseCode code;
    code.append(Fn::kMulAdd, {x(0), x(1), x(2)});
    code.append(Fn::kSelect, {s(0), x(0), s(0), x(1)});
    check_op({"mixed",
              Pointwise{code, dtype},
              {narrow, full, row},
              {.magnitude = 2},
              {},
              {DType::kF32, DType::kBf16}},
             reference);
    check_op({"gate",
              Pointwise{{Fn::kSelect, {x(0), 0.0f, 0.0f, x(1)}}, dtype},
              {narrow, narrow},
              {},
              {},
              {DType::kF32, DType::kBf16}},
             reference);
    check_op({"rounding", Pointwise{{Fn::kBf16, {x(0)}}, dtype}, {full}, {}, {}, {DType::kF32}},
             reference);
  }
}

TEST(Pointwise, RoundsToF16) {
  Tensor a{{0}, {}};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 99991)
    a.values.push_back(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  for (const double edge : {65504.0, 65519.99, 65520.0, 0x1p-14, 0x1.ffep-15, 0x1p-24, 0x1p-25,
                            0x1.8p-24, 1 + 0x1p-11, 1 + 0x1.8p-10, 0.0, -0.0})
    a.values.push_back(edge);
  std::erase_if(a.values, [](double value) { return std::isnan(value); });
  a.dims = {static_cast<int64_t>(a.values.size())};
  const RunResult result = run_node(wide({Fn::kF16, {x(0)}}), {a}, {DType::kF32});
  const Tensor y = decode(result.outputs[0], {DType::kF32, a.dims});
  for (size_t i = 0; i < a.values.size(); ++i) {
    const auto expected = static_cast<float>(Float16(static_cast<float>(a.values[i])));
    ASSERT_EQ(y.values[i], static_cast<double>(expected)) << a.values[i];
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RunResult none = run_node(wide({Fn::kF16, {x(0)}}), {{{1}, {nan}}}, {DType::kF32});
  EXPECT_TRUE(std::isnan(decode(none.outputs[0], {DType::kF32, {1}}).values[0]));
}

TEST(Pointwise, KeepsNaNAsItSays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto of = [&](PointwiseCode code, double a) {
    const RunResult result = run_node(wide(std::move(code)), {{{1}, {a}}}, {DType::kF32});
    return decode(result.outputs[0], {DType::kF32, {1}}).values[0];
  };
  EXPECT_TRUE(std::isnan(of({Fn::kMax, {0.0f, x(0)}}, nan)));
  EXPECT_EQ(of({Fn::kMax, {x(0), 0.0f}}, nan), 0);
  EXPECT_EQ(of({Fn::kSelect, {x(0), 0.0f, 1.0f, 2.0f}}, nan), 2);
}

TEST(Pointwise, SaysWhatDoesNotFit) {
  const auto infer = [](const PointwiseCode& code, const std::vector<Dims>& dims) {
    return std::string(error_of([&] {
                         std::vector<ValueType> types(dims.size());
                         std::transform(dims.begin(), dims.end(), types.begin(), [](const Dims& d) {
                           return ValueType{DType::kF32, d};
                         });
                         make_node(wide(code), types);
                       }).what());
  };
  using testing::HasSubstr;
  EXPECT_THAT(infer({Fn::kAdd, {x(0), x(1)}}, {{2, 3}, {4}}),
              HasSubstr("dims [2,3] and [4] do not fit together"));
  EXPECT_THAT(infer({Fn::kAdd, {x(0), x(2)}}, {{2}, {2}}), HasSubstr("step 0 reads input 2"));
  EXPECT_THAT(infer({Fn::kTanh, {s(0)}}, {{2}}), HasSubstr("step 0 reads step 0"));
  EXPECT_THAT(infer({}, {{2}}), HasSubstr("takes 1 to 24 steps, got 0"));
}

TEST(Pointwise, IsTextAndBack) {
  Graph g;
  const ValueId image = g.emit1(Input{"x", DType::kBf16, {2, 5, 6, 7}}, {});
  const ValueId weight = g.emit1(Input{"w", DType::kF32, {}}, {});
  g.outputs() = {{"y", g.emit(Pointwise{weighted_fusion(), DType::kBf16},
                              std::vector<ValueId>{image, image, weight, weight})[0]}};
  const std::string text = graph_text(g);
  EXPECT_EQ(graph_text(parse_graph(text)), text);
  EXPECT_THAT(text, testing::HasSubstr("code=[mul(x0, x2), mul(x1, x3), add(s0, s1), "));
}

// What a softmax must not see is masked by places, which are integers: alone, repeated, one number.
TEST(Pointwise, MasksByIntegers) {
  const auto integers = [](const Dims& dims) {
    return Argument{dims, DType::kI32, Recipe::integer(-2, 2)};
  };
  const PointwiseCode mask{Fn::kSelect, {x(1), 0.0f, -8.0f, x(0)}};
  for (const Dims& dims : kShapes) {
    std::vector<OpCase> cases;
    for (const Dims& places : std::vector<Dims>{dims, {dims[dims.rank() - 1]}, {}}) {
      cases.push_back({cat(dims, " by ", places),
                       Pointwise{mask, DType::kF32},
                       {{dims, {}, Recipe::uniform(-2, 2)}, integers(places)},
                       {},
                       {0}});
    }
    check_op(cases, reference);
  }
  // place < length of the row, i.e. not length <= place.
  check_op({"by lengths",
            Pointwise{{Fn::kSelect, {x(2), x(1), -8.0f, x(0)}}, {}},
            {{{9, 37}, {}, Recipe::uniform(-2, 2)},
             {{37}, DType::kI32, Recipe::integer(0, 36)},
             {{9, 1}, DType::kI32, Recipe::integer(0, 37)}},
            {},
            {0}},
           reference);
}

TEST(Pointwise, HasNoIntegersAsItsResult) {
  const Pointwise op{{Fn::kAdd, {x(0), x(1)}}, {}};
  const ValueType integers{DType::kI32, {3}};
  EXPECT_THAT(std::string(error_of([&] {
                            make_node(op, {integers, integers});
                          }).what()),
              testing::HasSubstr("needs the type of its result"));
  EXPECT_THAT(std::string(error_of([&] {
                            make_node(Pointwise{op.code, DType::kI32}, {integers, integers});
                          }).what()),
              testing::HasSubstr("can compute f32, bf16 or f16, not i32"));
}

// ---- SumTo ----

std::vector<Tensor> sum_reference(const Op& op, const std::vector<Tensor>& inputs) {
  const Dims& dims = std::get<SumTo>(op).dims;
  Tensor y{dims, std::vector<double>(static_cast<size_t>(dims.numel()))};
  for (size_t i = 0; i < inputs[0].values.size(); ++i)
    y.values[place_in(dims, inputs[0].dims, i)] +=
        inputs[0].values[i] * (inputs.size() == 2 ? inputs[1].values[i] : 1);
  return {y};
}

TEST(SumTo, SumsAnyNumberOfChannels) {
  std::vector<OpCase> cases;
  for (const int64_t channels : {1, 3, 5, 10, 17, 33, 64, 127, 128, 129, 1025}) {
    const int64_t rows = 20 + 30000 / channels;
    cases.push_back({cat(channels, " channels"), SumTo{{channels}}, {{{rows, channels}}}, {rows}});
    cases.push_back({cat(channels, " channels, 1 row"), SumTo{{channels}}, {{{channels}}}});
  }
  check_op(cases, sum_reference);
}

TEST(SumTo, SumsLeadingMiddleAndTrailingAxes) {
  check_op({{"all", SumTo{{}}, {{{5, 33, 129}}}, {21285}},
            {"rows", SumTo{{70, 1}}, {{{70, 301}}}, {301}},
            {"middle", SumTo{{4, 1, 1, 35}}, {{{4, 9, 11, 35}}}, {99}},
            {"few", SumTo{{300, 1, 1, 3}}, {{{300, 2, 2, 3}}}, {4}},
            {"large", SumTo{{2, 1, 65}}, {{{2, 401, 65}}}, {401}},
            {"tall", SumTo{{64}}, {{{70000, 64}}}, {70000}},
            {"nothing", SumTo{{1, 7}}, {{{1, 7}}}}},
           sum_reference);
}

TEST(SumTo, SumsProducts) {
  check_op({{"all", SumTo{{1}}, {{{5, 33, 129}}, {{5, 33, 129}}}, {21285}},
            {"channels", SumTo{{9}}, {{{401, 9}}, {{401, 9}}}, {401}},
            {"packs", SumTo{{64}}, {{{5000, 64}}, {{5000, 64}}}, {5000}},
            {"middle", SumTo{{4, 1, 1, 35}}, {{{4, 9, 11, 35}}, {{4, 9, 11, 35}}}, {99}}},
           sum_reference);
}

TEST(SumTo, GradientsAreRepeated) {
  check_op({{"all", SumTo{{}}, {{{3, 5, 7}}}, {105}, {0}},
            {"rows", SumTo{{7, 1}}, {{{7, 6}}}, {6}, {0}},
            {"middle", SumTo{{4, 1, 1, 3}}, {{{4, 2, 5, 3}}}, {10}, {0}}},
           sum_reference);
}

TEST(SumTo, SaysWhatCannotBeSummed) {
  const auto infer = [](const Dims& to) {
    return std::string(error_of([&] { make_node(SumTo{to}, {{DType::kF32, {4, 5, 6}}}); }).what());
  };
  EXPECT_THAT(infer({7}), testing::HasSubstr("cannot sum [4,5,6] to [7]"));
  EXPECT_THAT(infer({1, 5, 1}), testing::HasSubstr("must stand side by side"));
}

}  // namespace
}  // namespace assay::test
