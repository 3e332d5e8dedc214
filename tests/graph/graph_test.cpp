#include "sdk/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"
#include "sdk/graph/verify.h"
#include "tests/harness/graph_text.h"

namespace assay {
namespace {

using testing::HasSubstr;

Graph small_graph() {
  return parse_graph(
      "%0 = input() {name=\"x\", dtype=f32, dims=[4,3]} : f32[4,3]\n"
      "%1 = parameter() {name=\"w\", role=value, dtype=f32, dims=[2,3]} : f32[2,3]\n"
      "%2 = matmul(%0, %1) {transpose_a=false, transpose_b=true, has_bias=false, activation=none, "
      "dtype=f32, keep_pre=false} : f32[4,2]\n"
      "%3 = pointwise(%2) {code=relu, dtype=none} : f32[4,2]\n"
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
  activation(g, g.output("y"), ActivationKind::kTanh);  // nobody reads it
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
  g.rewrite({3}, Pointwise{add_code(), {}},
            {g.node({2}).outputs[0], late});  // reads a value produced after it
  EXPECT_THAT(message_of([&] { verify(g); }), HasSubstr("before it is produced"));
  g.sort();
  verify(g);
}

// As if counted anew, whatever was emitted and rewritten in between.
TEST(Rewriter, KeepsUsesTrue) {
  Graph g = small_graph();
  Rewriter rewriter(g);
  const auto expect_true_uses = [&] {
    const Uses anew(g);
    EXPECT_EQ(rewriter.uses().readers, anew.readers);
    EXPECT_EQ(rewriter.uses().is_output, anew.is_output);
  };
  const ValueId x{0}, w{1}, product{2}, y{3};
  expect_true_uses();
  EXPECT_TRUE(rewriter.uses().only_reader(product, NodeId{3}));
  const Matmul matmul = std::get<Matmul>(g.node(NodeId{2}).op);
  const ValueId other = g.emit1(matmul, {x, w});
  rewriter.rewrite(NodeId{3}, Pointwise{add_code(), {}}, {other, other});  // reads it twice
  expect_true_uses();
  EXPECT_FALSE(rewriter.uses().only_reader(w, NodeId{2}));
  Matmul kept = matmul;
  kept.activation = ActivationKind::kGelu;
  kept.keep_pre = true;
  rewriter.rewrite(NodeId{3}, kept, {x, w}, std::vector{product});  // with an output more
  expect_true_uses();
  const ValueId more = g.emit1(Pointwise{add_code(), {}}, {y, product});
  rewriter.rewrite(NodeId{4}, Pointwise{add_code(), {}}, {more, more});
  expect_true_uses();
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
    g.outputs().push_back({"sum", add(g, a, b)});
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

// Slices of one memory: an update hides those that it overlaps, and no others.
TEST(Graph, VerifyKnowsWhichViewsAnUpdateOverwrites) {
  const auto graph_reading = [](int64_t begin, int64_t length) {
    Graph g;
    const ValueId w = g.emit1(Parameter{"w", Role::kGradient, DType::kF32, {8}}, {});
    const ValueId front = g.emit1(Slice{{0}, {4}}, {w});
    const ValueId read = g.emit1(Slice{{begin}, {length}}, {w});
    g.emit1(Store{}, {front, g.emit1(Fill{{4}, 1}, {})});
    g.outputs() = {{"read", read}};
    return g;
  };
  EXPECT_EQ(message_of([&] { verify(graph_reading(4, 4)); }), "no error");
  EXPECT_THAT(message_of([&] { verify(graph_reading(3, 2)); }),
              HasSubstr("was updated in place before"));
}

TEST(Graph, VerifyRefusesPlacesThatAreNoParts) {
  Graph g;
  const ValueId x = g.emit1(Input{"x", DType::kF32, {2, 3}}, {});
  const ValueId a = g.emit1(Copy{}, {x}), b = g.emit1(Copy{}, {x});
  const ValueId both = g.emit1(Concat{1}, {a, b});
  g.place(b, both);
  verify(g);
  EXPECT_EQ(g.root(b), both);
  EXPECT_EQ(g.value(b).layout, (Layout{3, {6, 1}, {}}));
  EXPECT_THAT(message_of([&] { g.place(x, a); }), HasSubstr("is no part of"));
}

TEST(Layout, ReshapesWhatADistanceAlongEachAxisCanTell) {
  const Layout rows = slice_layout(dense_layout({4, 6, 10}), {0, 0, 2});  // [4,6,5] of 10 columns
  const auto split = reshape_layout(rows, {4, 6, 5}, {2, 12, 5});
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(*split, (Layout{2, {120, 10, 1}, {}}));
  EXPECT_FALSE(reshape_layout(rows, {4, 6, 5}, {4, 30}).has_value());
  EXPECT_FALSE(reshape_layout(rows, {4, 6, 5}, {8, 15}).has_value());
  const auto ones = reshape_layout(rows, {4, 6, 5}, {1, 24, 1, 5, 1});
  ASSERT_TRUE(ones.has_value());
  EXPECT_EQ(ones->strides[1], 10);
  EXPECT_EQ(ones->strides[3], 1);
  EXPECT_EQ(row_pitch(rows, {4, 6, 5}), 10);
  EXPECT_EQ(row_pitch(transpose_layout(rows, {1, 0, 2}), {6, 4, 5}), std::nullopt);
  EXPECT_EQ(row_pitch(dense_layout({3, 1}), {3, 1}), 1);
  EXPECT_TRUE(is_dense(slice_layout(dense_layout({4, 6}), {1, 0}), {2, 6}));
}

TEST(Layout, CountsAxesAsOneThatLieAlikeInBothPlaces) {
  const Dims dims{2, 3, 1, 4, 5};
  const Layout dense = dense_layout(dims);
  const auto text = [&](const Layout& first, const Layout& second) {
    std::string axes;
    for (const CommonAxis& axis : common_axes(dims, first, second))
      axes += cat(axis.size, ":", axis.first, ",", axis.second, " ");
    return axes;
  };
  EXPECT_EQ(text(dense, dense), "120:1,1 ");
  Layout rows = dense;  // of 8 elements, of which 5 count
  rows.strides = {96, 32, 32, 8, 1};
  EXPECT_EQ(text(dense, rows), "5:1,1 24:5,8 ");
  Layout turned = dense;  // the last two axes lie the other way round
  turned.strides = {60, 20, 20, 1, 4};
  EXPECT_EQ(text(dense, turned), "4:5,1 5:1,4 6:20,20 ");
  EXPECT_EQ(common_axes({1, 1}, dense_layout({1, 1}), dense_layout({1, 1})).size(), 0u);
}

}  // namespace
}  // namespace assay
