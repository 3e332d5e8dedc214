// Where copies are put, and what is placed in a concatenation.
#include "sdk/passes/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/verify.h"
#include "tests/harness/graph_text.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// x [2,4,4,3] upsampled to [2,8,8,5].
struct Upsampled {
  Graph graph;
  ValueId x, w, y;
  Upsampled() {
    x = graph.emit1(Input{"x", DType::kF32, {2, 4, 4, 3}}, {});
    w = graph.emit1(Parameter{"w", Role::kValue, DType::kF32, {3, 2, 2, 5}}, {});
    y = graph.emit1(Conv2dTranspose{{.stride = {2, 2}}, {2, 8, 8, 5}}, {x, w});
  }
};

// The text of the graph as it is run; lowered once more it is the same.
std::string lowered(Graph graph, std::vector<GraphOutput> outputs) {
  graph.outputs() = std::move(outputs);
  verify(graph);
  const Graph once = lower_views(std::move(graph)).graph;
  verify(once);
  std::string text = graph_text(once);
  EXPECT_EQ(graph_text(lower_views(once).graph), text);
  EXPECT_EQ(graph_text(parse_graph(text)), text);
  return text;
}

std::string lowered(const Graph& graph, const char* name, ValueId output) {
  return lowered(graph, {{name, output}});
}

int copies(const std::string& text) {
  int n = 0;
  for (size_t at = 0; (at = text.find("copy(", at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(LowerViews, WritesPartsToTheirPlace) {
  Upsampled u;
  const ValueId skip = u.graph.emit1(Input{"skip", DType::kF32, {2, 12, 10, 6}}, {});
  const ValueId crop = u.graph.emit1(Slice{{0, 3, 1, 0}, {2, 8, 8, 6}}, {skip});
  const ValueId both = u.graph.emit1(Concat{3}, {u.y, crop});
  const std::string text = lowered(u.graph, "both", both);
  EXPECT_THAT(text, HasSubstr("copy(%4) {} : f32[2,8,8,6] in %6 +5 [704,88,11,1]"));
  EXPECT_THAT(text, HasSubstr(": f32[2,8,8,5] in %6 +0 [704,88,11,1]"));
  EXPECT_EQ(copies(text), 1);
}

// Those who read the part as well must be able to read rows at a distance.
TEST(LowerViews, KeepsPartsThatOthersReadDense) {
  for (const bool reads_rows : {true, false}) {
    Upsampled u;
    const ValueId dy = u.graph.emit1(Input{"dy", DType::kF32, {2, 8, 8, 5}}, {});
    const ValueId both = u.graph.emit1(Concat{3}, {dy, u.y});
    const ValueId reader = reads_rows ? activation_grad(u.graph, u.y, dy, ActivationKind::kRelu)
                                      : u.graph.emit1(MaxPool{}, {u.y});
    const std::string text = lowered(u.graph, {{"both", both}, {"reader", reader}});
    EXPECT_EQ(copies(text), reads_rows ? 1 : 2);  // dy is written from outside
    const char* const y = reads_rows ? "f32[2,8,8,5] in %5 +5 [640,80,10,1]\n" : "f32[2,8,8,5]\n";
    const size_t line = text.find("conv2d_transpose(");
    EXPECT_THAT(text.substr(line, text.find('\n', line) + 1 - line), HasSubstr(y));
  }
}

// What stands there twice, and what the host reads, has memory of its own.
TEST(LowerViews, WritesConstantsToTheirPlaces) {
  Graph graph;
  const ValueId one = graph.emit1(Fill{{1}, 1}, {}), two = graph.emit1(Fill{{1}, 2}, {});
  const std::string text = lowered(graph, "both", graph.emit1(Concat{0}, {one, two}));
  EXPECT_THAT(text, HasSubstr("value=2} : f32[1] in %2 +1 [1]"));
  EXPECT_EQ(copies(text), 0);
}

TEST(LowerViews, CopiesPartsThatAreNeededElsewhere) {
  Upsampled u;
  const ValueId twice = u.graph.emit1(Concat{3}, {u.y, u.y});
  EXPECT_EQ(copies(lowered(u.graph, "twice", twice)), 2);
  Upsampled v;
  const ValueId dy = v.graph.emit1(Input{"dy", DType::kF32, {2, 8, 8, 5}}, {});
  const ValueId both = v.graph.emit1(Concat{3}, {v.y, dy});
  EXPECT_EQ(copies(lowered(v.graph, {{"both", both}})), 1);
  EXPECT_EQ(copies(lowered(v.graph, {{"both", both}, {"y", v.y}})), 2);
}

// A copy belongs to who needs it.
TEST(LowerViews, KeepsScopesQueuesAndPhases) {
  Graph g;
  const ValueId x = g.emit1(Input{"x", DType::kF32, {4, 6}}, {});
  const ValueId turned = g.emit1(Transpose{{1, 0}}, {x});
  g.set_scope("late");
  g.set_phase(Phase::kBackward);
  const ValueId y = g.emit1(Softmax{}, {turned});
  g.node(g.value(y).producer).queue = QueueId::kCommunication;
  g.outputs() = {{"y", y}};
  const Graph out = lower_views(g).graph;
  ASSERT_EQ(out.nodes().size(), 4u);
  EXPECT_EQ(out.nodes()[1].phase, Phase::kForward);
  for (const int i : {2, 3}) {
    const Node& node = out.node({i});
    EXPECT_EQ(node.scope, "late");
    EXPECT_EQ(node.phase, Phase::kBackward);
    EXPECT_EQ(node.queue, QueueId::kCommunication);
  }
}

// A part that is made long before the rest is copied: in its place it would hold the memory of all.
TEST(LowerViews, PlacesOnlyWhatIsMadeLast) {
  Upsampled u;
  const ValueId other =
      u.graph.emit1(Conv2dTranspose{{.stride = {2, 2}}, {2, 8, 8, 5}}, {u.x, u.w});
  const ValueId next = u.graph.emit1(Concat{3}, {u.y, other});
  EXPECT_EQ(copies(lowered(u.graph, "next", next)), 0);
  const ValueId between = activation(u.graph, u.x, ActivationKind::kRelu);
  const ValueId late =
      u.graph.emit1(Conv2dTranspose{{.stride = {2, 2}}, {2, 8, 8, 5}}, {between, u.w});
  const ValueId far = u.graph.emit1(Concat{3}, {other, late});
  EXPECT_EQ(copies(lowered(u.graph, "far", far)), 2);  // of `other`, here and for `next`
}

TEST(LowerViews, CopiesOnceForAllWhoCannotReadAView) {
  Graph g;
  const ValueId x = g.emit1(Input{"x", DType::kF32, {4, 6}}, {});
  const ValueId turned = g.emit1(Transpose{{1, 0}}, {x});
  const ValueId a = g.emit1(Softmax{}, {turned});
  const ValueId b = g.emit1(SumTo{{4}}, {turned});
  const std::string text = lowered(g, "sum", add(g, a, b));
  EXPECT_EQ(copies(text), 1);
  EXPECT_EQ(copies(lowered(g, "turned", turned)), 1);
  const ValueId rows = g.emit1(Slice{{2, 0}, {1, 6}}, {x});
  EXPECT_EQ(copies(lowered(g, "rows", rows)), 1);  // the one of the transpose that is not needed
}

}  // namespace
}  // namespace assay
