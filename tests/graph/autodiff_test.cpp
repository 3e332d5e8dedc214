#include "sdk/graph/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/text.h"
#include "sdk/graph/verify.h"

namespace assay {
namespace {

int count(const Graph& g, std::string_view name) {
  int n = 0;
  for (const Node& node : g.nodes()) n += op_name(node.op) == name;
  return n;
}

// loss(x, w) with w used twice.
struct TwiceUsed {
  Graph g;
  ValueId x = g.emit1(Input{"x", DType::kF32, {4, 3}}, {});
  ValueId w = g.emit1(Parameter{"w", Role::kValue, DType::kF32, {3, 3}}, {});
  ValueId labels = g.emit1(Input{"label", DType::kI32, {4}}, {});
  ValueId h = g.emit1(Matmul{}, {x, w});
  ValueId y = g.emit1(Matmul{}, {h, w});
  ValueId loss = g.emit1(SoftmaxCrossEntropy{}, {y, labels});
  ValueId seed = g.emit1(Fill{{}, 1}, {});
};

TEST(Autodiff, SumsContributionsOfAValueUsedTwice) {
  TwiceUsed t;
  const auto gradients = append_backward(t.g, t.loss, t.seed, std::array{t.w});
  verify(t.g);
  EXPECT_EQ(t.g.type(gradients[0]), t.g.type(t.w));
  EXPECT_TRUE(is_add(t.g.producer(gradients[0]).op));
}

TEST(Autodiff, ComputesNoGradientNobodyWants) {
  TwiceUsed t;
  append_backward(t.g, t.loss, t.seed, std::array{t.w});
  // dy*w^T for h, two products for w; none for the input x.
  EXPECT_EQ(count(t.g, "matmul"), 2 + 3);
}

TEST(Autodiff, AnIndependentValueHasNoGradient) {
  TwiceUsed t;
  const ValueId other = t.g.emit1(Parameter{"other", Role::kValue, DType::kF32, {2}}, {});
  const auto gradients = append_backward(t.g, t.loss, t.seed, std::array{t.w, other});
  EXPECT_TRUE(gradients[0].valid());
  EXPECT_FALSE(gradients[1].valid());
}

TEST(Autodiff, RefusesALossThatIsNotAScalarAndOpsWithoutAGradient) {
  TwiceUsed t;
  EXPECT_THROW(append_backward(t.g, t.y, t.seed, std::array{t.w}), Error);
  Graph g;
  const ValueId w = g.emit1(Parameter{"w", Role::kValue, DType::kF32, {4, 3}}, {});
  const ValueId labels = g.emit1(Input{"label", DType::kI32, {4}}, {});
  const ValueId p = g.emit1(Softmax{}, {w});
  const ValueId loss = g.emit1(SoftmaxCrossEntropy{}, {p, labels});
  const ValueId seed = g.emit1(Fill{{}, 1}, {});
  try {
    append_backward(g, loss, seed, std::array{w});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("softmax has no gradient"));
  }
}

// loss(y * w2 + mean * w3) of batch_norm(x): the gradient of `mean` has no way back.
TEST(Autodiff, RefusesToLoseAGradient) {
  for (const bool through_y : {true, false}) {
    Graph g;
    const ValueId x = g.emit1(Input{"x", DType::kF32, {3, 3}}, {});
    const ValueId w = g.emit1(Parameter{"w", Role::kValue, DType::kF32, {3, 3}}, {});
    const ValueId gamma = g.emit1(Parameter{"gamma", Role::kValue, DType::kF32, {3}}, {});
    const ValueId beta = g.emit1(Parameter{"beta", Role::kValue, DType::kF32, {3}}, {});
    const ValueId labels = g.emit1(Input{"label", DType::kI32, {1}}, {});
    const ValueId h = g.emit1(Matmul{}, {x, w});
    g.set_scope("bn");
    const auto y = g.emit(BatchNorm{}, {h, gamma, beta});
    g.set_scope("");
    ValueId mean = g.emit1(Reshape{{1, 3}}, {y[1]});
    if (through_y) {
      const ValueId row = g.emit1(Input{"row", DType::kF32, {1, 3}}, {});
      mean = add(g, mean, g.emit1(Matmul{}, {row, y[0]}));
    }
    const ValueId loss = g.emit1(SoftmaxCrossEntropy{}, {mean, labels});
    const ValueId seed = g.emit1(Fill{{}, 1}, {});
    try {
      append_backward(g, loss, seed, std::array{w});
      ADD_FAILURE() << through_y;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnsupported);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("batch_norm at bn passes no gradient through its output 1"));
      EXPECT_EQ(error.detail().op_path, "bn");
    }
  }
}

}  // namespace
}  // namespace assay
