#include "sdk/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/graph/elementwise.h"
#include "tests/harness/graph_text.h"

namespace assay {
namespace {

using testing::HasSubstr;

// One node of every op family with unusual attributes: parse(print(g)) must give the same text.
TEST(Text, RoundTripsEveryAttributeKind) {
  Graph g;
  g.set_scope("stem");
  const ValueId x = g.emit1(Input{"image", DType::kBf16, {2, 9, 7, 6}}, {});
  const ValueId w = g.emit1(Parameter{"stem.weight", Role::kEma, DType::kBf16, {4, 3, 1, 3}}, {});
  const ConvGeometry geometry{{2, 1}, {1, 0}, {0, 2}, {1, 3}, 2};
  const ValueId y =
      g.emit1(Conv2d{.geometry = geometry, .activation = ActivationKind::kSwish}, {x, w});
  const ValueId rate = g.emit1(StepScalar{ScalarKind::kRandomStep}, {});
  g.set_scope("");
  const ValueId z = g.emit1(Dropout{0.1f, 18446744073709551615u, 3}, {y, rate});
  cast(g, z, DType::kF32);
  g.outputs() = {{"z", z}};
  const std::string text = graph_text(g);
  EXPECT_EQ(graph_text(parse_graph(text)), text);
  EXPECT_THAT(text,
              HasSubstr("stride=[2,1], pad_begin=[1,0], pad_end=[0,2], dilation=[1,3], groups=2"));
  EXPECT_THAT(text, HasSubstr("# stem"));
}

TEST(Text, RoundTripsAnyName) {
  for (const std::string name : {"a \"quoted\" one", "back\\slash\\", "two\nlines", " blank ", "\"",
                                 "a, b=%0", "caf\xC3\xA9", "n\\n", "# 1"}) {
    Graph g;
    g.set_scope(name);
    g.outputs() = {{name, g.emit1(Input{name, DType::kF32, {2}}, {})}};
    g.set_scope(name + name);
    g.outputs().push_back({"x", g.emit1(Parameter{name, Role::kValue, DType::kF32, {2}}, {})});
    const std::string text = graph_text(g);
    const Graph again = parse_graph(text);
    EXPECT_EQ(graph_text(again), text);
    EXPECT_EQ(again.outputs()[0].name, name);
    EXPECT_EQ(std::get<Input>(again.node({0}).op).name, name) << text;
    EXPECT_EQ(std::get<Parameter>(again.node({1}).op).name, name) << text;
    EXPECT_EQ(again.node({0}).scope, name) << text;
    EXPECT_EQ(again.node({1}).scope, name + name) << text;
  }
}

std::string parse_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, SaysWhetherProductsMayRoundToTf32) {
  Graph g;
  g.outputs() = {{"x", g.emit1(Input{"x", DType::kF32, {2}}, {})}};
  EXPECT_FALSE(parse_graph(graph_text(g)).tf32());
  g.set_tf32(true);
  const std::string text = graph_text(g);
  EXPECT_TRUE(parse_graph(text).tf32());
  EXPECT_EQ(graph_text(parse_graph(text)), text);
}

TEST(Text, SaysWhereViewsAndPartsLie) {
  Graph g;
  const ValueId x = g.emit1(Input{"x", DType::kF32, {4, 6}}, {});
  const ValueId part = g.emit1(Slice{{1, 2}, {2, 3}}, {x});
  g.emit1(SliceGrad{{0, 1}, {2, 5}}, {part});
  const ValueId turned = g.emit1(Transpose{{1, 0}}, {x});
  const ValueId copy = g.emit1(Copy{}, {turned});
  const ValueId both = g.emit1(Concat{0}, {copy, turned});
  g.place(copy, both);
  g.outputs() = {{"both", both}};
  const std::string text = graph_text(g);
  EXPECT_THAT(text, HasSubstr(": f32[2,3] in %0 +8 [6,1]\n"));
  EXPECT_THAT(text, HasSubstr(": f32[2,5] in %0 +8 [6,1] at [0,1] of [2,3]\n"));
  EXPECT_THAT(text, HasSubstr(": f32[6,4] in %0 +0 [1,6]\n"));
  EXPECT_THAT(text, HasSubstr("copy(%3) {} : f32[6,4] in %5 +0 [4,1]\n"));
  const Graph again = parse_graph(text);
  EXPECT_EQ(graph_text(again), text);
  EXPECT_EQ(again.value(copy).placed_in, both);
  std::string wrong = text;
  wrong.replace(wrong.find("+8 [6,1]\n"), 2, "+7");
  EXPECT_THAT(parse_error(wrong), HasSubstr("%1 lies at +8 [6,1]"));
}

TEST(Text, ErrorsNameTheLine) {
  const std::string input = "%0 = input() {name=\"x\", dtype=f32, dims=[4,3]} : f32[4,3]\n";
  EXPECT_THAT(parse_error(input + "%1 = flip(%0) {} : f32[4,3]\n"),
              HasSubstr("line 2: unknown op 'flip'"));
  EXPECT_THAT(parse_error(input + "%1 = pointwise(%0, %7) {code=add, dtype=none} : f32[4,3]\n"),
              HasSubstr("line 2: %7 is not defined above"));
  EXPECT_THAT(parse_error(input + "%1 = pointwise(%0) {code=soft, dtype=none} : f32[4,3]\n"),
              HasSubstr("unknown function 'soft'"));
  EXPECT_THAT(parse_error(input + "%1 = pointwise(%0, %0) {code=add, dtype=none} : f32[4,4]\n"),
              HasSubstr("inferred as f32[4,3]"));
  EXPECT_THAT(parse_error("%0 = input() {name=\"x, dtype"),
              HasSubstr("line 1: a text in quotation"));
  EXPECT_THAT(parse_error("%0 = input("), HasSubstr("line 1"));
  EXPECT_THAT(parse_error("return y=%0"), HasSubstr("not defined"));
  EXPECT_THAT(parse_error("%0 = fill() {dims=[99999999999999999999], value=0} : f32[1]\n"),
              HasSubstr("is not a number"));
}

}  // namespace
}  // namespace assay
