#include "sdk/passes/rematerialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/autodiff.h"
#include "sdk/graph/elementwise.h"
#include "tests/passes/run_pass.h"

namespace assay {
namespace {

constexpr float kEpsilon = 1e-3f;

// A chain of convolutions of 1x1, each with a normalisation, and its gradient.
class Chain {
 public:
  Chain() : x_(parameter("x", {2, 4, 4, 3})) {}

  Graph& graph() { return graph_; }
  ValueId x() const { return x_; }
  ValueId convolution(ValueId x) {
    return graph_.emit1(Conv2d{}, {x, parameter(cat("w", n_++), {3, 1, 1, 3})});
  }
  ValueId norm(ValueId x, ActivationKind activation, ValueId residual = {}) {
    std::vector<ValueId> inputs{x, parameter(cat("g", n_++), {3}), parameter(cat("b", n_++), {3})};
    if (residual.valid()) inputs.push_back(residual);
    return graph_.emit(
        BatchNorm{.epsilon = kEpsilon, .activation = activation, .has_residual = residual.valid()},
        inputs)[0];
  }
  ValueId max_pool(ValueId x) {
    return graph_.emit1(MaxPool{{.window = {2, 2}, .stride = {2, 2}}}, {x});
  }
  // With the gradient of all parameters, after which the pass runs. Says what it did.
  bool differentiate_and_run(ValueId y) {
    const ValueId loss = graph_.emit1(SumTo{}, {activation(graph_, y, ActivationKind::kTanh)});
    const ValueId seed = graph_.emit1(Fill{{}, 1}, {});
    const std::vector<ValueId> gradients = append_backward(graph_, loss, seed, parameters_);
    for (size_t i = 0; i < gradients.size(); ++i)
      graph_.outputs().push_back({cat("gradient", i), gradients[i]});
    graph_.remove_dead_nodes();
    const bool changed = rematerialize(graph_);
    verify(graph_);
    return changed;
  }
  template <class T>
  std::vector<NodeId> nodes() const {
    std::vector<NodeId> found;
    for (int32_t i = 0; i < static_cast<int32_t>(graph_.nodes().size()); ++i)
      if (std::holds_alternative<T>(graph_.nodes()[static_cast<size_t>(i)].op))
        found.push_back({i});
    return found;
  }

 private:
  ValueId parameter(const std::string& name, const Dims& dims) {
    parameters_.push_back(graph_.emit1(Parameter{name, Role::kValue, DType::kF32, dims}, {}));
    return parameters_.back();
  }

  Graph graph_;
  std::vector<ValueId> parameters_;
  int n_ = 0;
  ValueId x_;
};

// Made just before the gradient of the filters that reads it, of the same statistics.
TEST(Rematerialize, MakesAgainWhatTheNextConvolutionsGradientReads) {
  for (const ActivationKind kind : {ActivationKind::kNone, ActivationKind::kRelu}) {
    Chain c;
    const ValueId y = c.norm(c.convolution(c.x()), kind);
    ASSERT_TRUE(c.differentiate_and_run(c.convolution(y)));
    const std::vector<NodeId> again = c.nodes<BatchNormInference>();
    ASSERT_EQ(again.size(), 1u);
    const Graph& g = c.graph();
    const Node& forward = g.node(c.nodes<BatchNorm>().at(0));
    const Node& backward = g.node(again[0]);
    EXPECT_EQ(backward.inputs, (std::vector{forward.inputs[0], forward.inputs[1], forward.inputs[2],
                                            forward.outputs[1], forward.outputs[2]}));
    EXPECT_EQ(backward.op, (Op{BatchNormInference{kEpsilon, kind, false}}));
    EXPECT_EQ(backward.phase, Phase::kBackward);
    const Node& next = g.node({again[0].index + 1});
    EXPECT_TRUE(std::holds_alternative<Conv2dGradWeight>(next.op));
    EXPECT_EQ(next.inputs[0], backward.outputs[0]);
    EXPECT_FALSE(rematerialize(c.graph()));  // nothing in backward reads y any more
  }
}

// From what the pool's own gradient reads, just before the gradient of the filters behind it.
TEST(Rematerialize, MakesPoolsAgain) {
  Chain c;
  const ValueId x = c.convolution(c.x()), y = c.max_pool(x);
  ASSERT_TRUE(c.differentiate_and_run(c.convolution(y)));
  const Graph& g = c.graph();
  const std::vector<NodeId> pools = c.nodes<MaxPool>();
  ASSERT_EQ(pools.size(), 2u);
  const Node& again = g.node(pools[1]);
  EXPECT_EQ(again.inputs, std::vector{x});
  EXPECT_EQ(again.phase, Phase::kBackward);
  const Node& next = g.node({pools[1].index + 1});
  EXPECT_TRUE(std::holds_alternative<Conv2dGradWeight>(next.op));
  EXPECT_EQ(next.inputs[0], again.outputs[0]);
}

// The normalisation is made again, so that the pool's x is not kept.
TEST(Rematerialize, LeavesPoolsOfWhatIsNotKeptAlone) {
  Chain c;
  const ValueId norm = c.norm(c.convolution(c.x()), ActivationKind::kRelu);
  ASSERT_TRUE(c.differentiate_and_run(c.convolution(c.max_pool(norm))));
  EXPECT_EQ(c.nodes<BatchNormInference>().size(), 1u);
  EXPECT_EQ(c.nodes<MaxPool>().size(), 1u);
}

// What an exponential costs is not worth it.
TEST(Rematerialize, LeavesSwishAlone) {
  Chain c;
  EXPECT_FALSE(
      c.differentiate_and_run(c.convolution(c.norm(c.convolution(c.x()), ActivationKind::kSwish))));
}

// A residual must be there in backward: of a row of sums every second one is made again.
TEST(Rematerialize, OfResidualsThatAreKept) {
  Chain c;
  ValueId sum = c.x();
  for (int i = 0; i < 4; ++i) sum = c.norm(c.convolution(sum), ActivationKind::kRelu, sum);
  ASSERT_TRUE(c.differentiate_and_run(c.convolution(sum)));
  const Graph& g = c.graph();
  const std::vector<NodeId> norms = c.nodes<BatchNorm>(), again = c.nodes<BatchNormInference>();
  ASSERT_EQ(norms.size(), 4u);
  ASSERT_EQ(again.size(), 2u);
  // Backward begins with the last. x is kept: it is a parameter, and backward reads it.
  EXPECT_EQ(g.node(again[0]).inputs.back(), g.node(norms[1]).outputs[0]);
  EXPECT_EQ(g.node(again[1]).inputs.back(), c.x());
}

// All that backward reads of y is made once, in front of the first of them.
TEST(Rematerialize, ForAllReadersOfBackward) {
  Chain c;
  const ValueId y = c.norm(c.convolution(c.x()), ActivationKind::kRelu);
  ASSERT_TRUE(c.differentiate_and_run(add(c.graph(), c.convolution(y), c.convolution(y))));
  const std::vector<NodeId> again = c.nodes<BatchNormInference>();
  ASSERT_EQ(again.size(), 1u);
  int readers = 0;
  for (const NodeId id : c.nodes<Conv2dGradWeight>()) {
    const ValueId x = c.graph().node(id).inputs[0];
    EXPECT_NE(x, y);
    readers += x == c.graph().node(again[0]).outputs[0];
  }
  EXPECT_EQ(readers, 2);
}

// What it is made of must be there: x is y of another normalisation, which is made again itself.
TEST(Rematerialize, OfAnotherNormalisationOnlyTheFirst) {
  Chain c;
  const ValueId first = c.norm(c.convolution(c.x()), ActivationKind::kRelu);
  ASSERT_TRUE(c.differentiate_and_run(c.convolution(c.norm(first, ActivationKind::kRelu))));
  const std::vector<NodeId> again = c.nodes<BatchNormInference>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(c.graph().node(again[0]).inputs[0], c.graph().producer(first).inputs[0]);
}

// Outputs of the graph, and what views look at, are there in any case.
TEST(Rematerialize, LeavesWhatIsKeptForOthers) {
  Chain read;
  const ValueId y = read.norm(read.convolution(read.x()), ActivationKind::kRelu);
  read.graph().outputs().push_back({"y", y});
  EXPECT_FALSE(read.differentiate_and_run(read.convolution(y)));

  Chain viewed;
  const ValueId z = viewed.norm(viewed.convolution(viewed.x()), ActivationKind::kRelu);
  const ValueId rows = viewed.graph().emit1(Reshape{{1, 8, 4, 3}}, {z});
  const ValueId again = viewed.graph().emit1(Reshape{{2, 4, 4, 3}}, {viewed.convolution(rows)});
  EXPECT_FALSE(viewed.differentiate_and_run(add(viewed.graph(), viewed.convolution(z), again)));
}

TEST(Rematerialize, LeavesPredictorsAlone) {
  Chain c;
  c.graph().outputs().push_back(
      {"y", c.convolution(c.norm(c.convolution(c.x()), ActivationKind::kRelu))});
  EXPECT_FALSE(rematerialize(c.graph()));
}

}  // namespace
}  // namespace assay
