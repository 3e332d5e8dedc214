// Logits whose rows are aligned, and where they are left alone. That the numbers are the same is
// tested on a whole model (tests/gpu/training_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/autodiff.h"
#include "sdk/graph/elementwise.h"
#include "sdk/passes/pad_classes.h"
#include "tests/passes/run_pass.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// The losses and gradients of four rows of so many classes, by a linear layer.
struct Layer {
  explicit Layer(int64_t classes) {
    const auto parameter = [&](const char* name, Dims dims) {
      return graph.emit1(Parameter{name, Role::kValue, DType::kF32, dims}, {});
    };
    const auto input = [&](const char* name, DType dtype, Dims dims) {
      return graph.emit1(Input{name, dtype, dims}, {});
    };
    x = input("x", DType::kF32, {4, 8});
    labels = input("labels", DType::kI32, {4});
    weight = parameter("w", {classes, 8}), bias = parameter("b", {classes});
    logits = graph.emit1(Matmul{.transpose_b = true, .has_bias = true}, {x, weight, bias});
  }
  ValueId loss(float smoothing) {
    return graph.emit(SoftmaxCrossEntropy{.label_smoothing = smoothing}, {logits, labels})[0];
  }
  void differentiate(ValueId of) {
    const ValueId seed = graph.emit1(Fill{.dims = {}, .value = 1}, {});
    const auto gradients = append_backward(graph, of, seed, std::vector{x, weight, bias});
    graph.outputs() = {
        {"loss", of}, {"dx", gradients[0]}, {"dw", gradients[1]}, {"db", gradients[2]}};
  }
  std::string padded(bool expect_change) {
    return test::run(pad_classes, graph_text(graph), expect_change);
  }
  Graph graph;
  ValueId x, labels, weight, bias, logits;
};

TEST(PadClasses, LossAndGradientsSeeTheClassesAlone) {
  Layer layer(1030);
  layer.differentiate(layer.loss(0.1f));
  const std::string text = layer.padded(true);
  EXPECT_THAT(text, HasSubstr("x_dims=[1088,8]"));
  EXPECT_THAT(
      text,
      HasSubstr("label_smoothing=0.1, reduction=mean, epsilon=0, classes=1030} : f32[4,1088]"));
  EXPECT_THAT(text, HasSubstr("{begin=[0,0], dims=[4,1030]} : f32[4,1030]"));  // for dw
  EXPECT_THAT(text, HasSubstr("sum_to"));
  EXPECT_THAT(text, HasSubstr("{begin=[0], dims=[1030]} : f32[1030]"));
  // No product but the gradient of the weight has rows of 1,030.
  EXPECT_THAT(text, Not(HasSubstr("matmul(%0, %2")));
}

TEST(PadClasses, OnlyUnalignedRowsOfManyClasses) {
  for (const int64_t classes : {1032, 1023}) {
    Layer layer(classes);
    layer.differentiate(layer.loss(0));
    layer.padded(false);
  }
}

// Logits that others read stay as they are.
TEST(PadClasses, OnlyWhatOneLossReads) {
  Layer kept(1030);
  kept.differentiate(kept.loss(0));
  kept.graph.outputs().push_back({"logits", kept.logits});
  kept.padded(false);
  Layer counted(1030);
  counted.differentiate(counted.loss(0));
  counted.graph.outputs().push_back(
      {"top1", counted.graph.emit1(TopKCorrect{1}, {counted.logits, counted.labels})});
  counted.padded(false);
}

// The sum of two losses' gradients is of the classes: both are right, the products are as before.
TEST(PadClasses, TwoLossesOfOneProductKeepTheirGradients) {
  Layer layer(1030);
  layer.differentiate(add(layer.graph, layer.loss(0), layer.loss(0.5f)));
  const std::string text = layer.padded(true);
  EXPECT_THAT(text, HasSubstr("label_smoothing=0.5, reduction=mean, epsilon=0, classes=1030"));
  EXPECT_THAT(text, HasSubstr("label_smoothing=0, reduction=mean, epsilon=0, classes=1030"));
}

}  // namespace
}  // namespace assay
