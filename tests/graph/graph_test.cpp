#include "sdk/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/text.h"
#include "sdk/graph/verify.h"

namespace assay {
namespace {

using testing::HasSubstr;

Graph small_graph() {
  return parse_graph(
      "%0 = input() {name=\"x\", dtype=f32, dims=[4,3]} : f32[4,3]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[2,3]} : f32[2,3]\n"
      "%2 = matmul(%0, %1) {transpose_a=false, transpose_b=true, has_bias=false, activation=none, "
      "dtype=f32} : f32[4,2]\n"
      "%3 = activation(%2) {kind=relu} : f32[4,2]\n"
      "return y=%3\n");
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Graph, EmitInfersTypesAtOnce) {
  const Graph g = small_graph();
  EXPECT_EQ(g.type(g.output("y")), (ValueType{DType::kF32, {4, 2}}));
  EXPECT_FALSE(g.output("z").valid());
}

TEST(Graph, ShapeErrorsNameTheScopeAndBothSides) {
  Graph g;
  g.set_scope("encoder.3");
  const ValueId a = g.emit1(Input{"a", DType::kF32, {4, 768}}, {});
  const ValueId b = g.emit1(Input{"b", DType::kF32, {1024, 2}}, {});
  const std::string message = message_of([&] { g.emit1(Matmul{}, {a, b}); });
  EXPECT_THAT(message, HasSubstr("matmul at encoder.3"));
  EXPECT_THAT(message, HasSubstr("inner sizes 768 and 1024 differ"));
}

TEST(Graph, SizesThatOverflowAreRefused) {
  const int64_t much = int64_t{1} << 31;
  for (const Dims& dims :
       {Dims{much, much}, Dims{much, much, 2}, Dims{much, much, much}, Dims{-1}}) {
    Graph g;
    EXPECT_THAT(message_of([&] {
                  g.emit1(Input{"a", DType::kF32, dims}, {});
                }),
                HasSubstr("no memory can hold"))
        << to_text(dims);
  }
}

TEST(Graph, DeadNodesGoAndUpdatesStay) {
  Graph g = small_graph();
  g.emit1(Activation{ActivationKind::kTanh}, {g.output("y")});  // nobody reads it
  const ValueId gradient = g.emit1(Parameter{"w", Role::kGradient, DType::kF32, {2, 3}}, {});
  const ValueId w = g.node({1}).outputs[0];
  g.emit1(Store{}, {gradient, w});
  g.remove_dead_nodes();
  verify(g);
  const std::string text = graph_text(g);
  EXPECT_THAT(text, testing::Not(HasSubstr("tanh")));
  EXPECT_THAT(text, HasSubstr("store"));
}

TEST(Graph, SortRestoresTheOrderAfterARewrite) {
  Graph g = small_graph();
  const ValueId late = g.emit1(Input{"late", DType::kF32, {4, 2}}, {});
  g.rewrite({3}, Add{}, {g.node({2}).outputs[0], late});  // reads a value produced after it
  EXPECT_THAT(message_of([&] { verify(g); }), HasSubstr("before it is produced"));
  g.sort();
  verify(g);
}

TEST(Graph, VerifyRefusesAReaderOfAnOverwrittenValue) {
  Graph g;
  const ValueId step = g.emit1(Parameter{"trainer.step", Role::kState, DType::kI64, {}}, {});
  const ValueId skip = g.emit1(Fill{{}, 0}, {});
  g.emit1(CountStep{}, {step, skip});
  g.emit1(CountStep{}, {step, skip});  // reads the old value again
  EXPECT_THAT(message_of([&] { verify(g); }), HasSubstr("was updated in place before"));
}

// Two leaves of one parameter would be one memory under two ids.
TEST(Graph, VerifyRefusesASecondLeafOfAVariable) {
  const auto graph_with = [](Role first, Role second) {
    Graph g;
    const ValueId a = g.emit1(Parameter{"w", first, DType::kF32, {2}}, {});
    const ValueId b = g.emit1(Parameter{"w", second, DType::kF32, {2}}, {});
    g.outputs().push_back({"sum", g.emit1(Add{}, {a, b})});
    return g;
  };
  EXPECT_THAT(message_of([&] { verify(graph_with(Role::kValue, Role::kValue)); }),
              HasSubstr("verify: a second leaf of w in %1 = parameter"));
  EXPECT_EQ(message_of([&] { verify(graph_with(Role::kGradient, Role::kValue)); }), "no error");
}

TEST(Graph, VerifyFollowsAliasesAndOutputs) {
  Graph g;
  const ValueId a = g.emit1(Parameter{"w", Role::kGradient, DType::kF32, {2}}, {});
  const ValueId row = g.emit1(Reshape{{1, 2}}, {a});
  const ValueId new_value = g.emit1(Fill{{2}, 1}, {});
  const ValueId stored = g.emit1(Store{}, {a, new_value});
  g.outputs() = {{"stored", g.emit1(Reshape{{1, 2}}, {stored})}};
  EXPECT_EQ(message_of([&] { verify(g); }), "no error");
  g.outputs() = {{"old", row}};
  EXPECT_THAT(message_of([&] { verify(g); }), HasSubstr("the end, where it is output old"));
}

}  // namespace
}  // namespace assay
