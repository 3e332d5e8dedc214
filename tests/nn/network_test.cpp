// Networks as data: built-in models described layer by layer are the same graphs; what makes no
// sense is refused where it is said, and changes nothing.
#include "sdk/nn/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "models/models.h"
#include "tests/harness/error_of.h"
#include "tests/harness/graph_text.h"
#include "tests/nn/rebuilt.h"

namespace assay::nn {
namespace {

using assay::test::error_of;
using testing::HasSubstr;

// With braces for operands, as rebuilt.h writes them.
class Writer {
 public:
  NetworkValue input(const std::string& name, std::string_view keys) {
    return network.input(name, keys);
  }
  NetworkValue layer(std::string_view kind, const std::string& name, std::string_view keys,
                     std::vector<NetworkValue> in) {
    return network.layer(kind, name, keys, in);
  }
  void output(const std::string& name, NetworkValue value, NetworkValue weight,
              std::string_view keys) {
    network.output(name, value, weight, keys);
  }
  NetworkWriter network{"test"};
};

// The graph of a mode without its scopes, which name layers that only one of two networks has.
std::string forward_text(const Model& model, Mode mode, VariableTable& variables) {
  Graph graph;
  Builder b(graph, mode, 8, variables, 7);
  for (const Output& output : model.forward(b)) {
    graph.outputs().push_back({output.name, output.value});
    if (output.weight.valid()) graph.outputs().push_back({output.name + ".weight", output.weight});
  }
  std::istringstream lines(graph_text(graph));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += line.substr(0, line.find("  # ")) + "\n";
  return text;
}

void expect_same(const Model& ours, const Model& theirs) {
  VariableTable our_variables, their_variables;
  for (const Mode mode : {Mode::kTrain, Mode::kEval, Mode::kPredict}) {
    EXPECT_EQ(forward_text(ours, mode, our_variables), forward_text(theirs, mode, their_variables));
    const auto a = ours.inputs(mode), b = theirs.inputs(mode);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_EQ(a[i].sample, b[i].sample);
      EXPECT_EQ(a[i].dtype, b[i].dtype);
      EXPECT_EQ(a[i].is_label, b[i].is_label);
      EXPECT_EQ(a[i].padding, b[i].padding);
      EXPECT_EQ(a[i].range.has_value(), b[i].range.has_value());
    }
  }
  EXPECT_EQ(our_variables.all(), their_variables.all());
}

TEST(Network, CnnLayerByLayerIsTheSameGraph) {
  Writer w;
  assay::test::add_cnn(w);
  expect_same(*w.network.finish(), *models::create_model("cnn", assay::test::kRebuiltCnn));
}

TEST(Network, ResNetLayerByLayerIsTheSameGraph) {
  Writer w;
  assay::test::add_resnet18(w);
  expect_same(*w.network.finish(), *models::create_model("resnet18", assay::test::kRebuiltResNet));
}

TEST(Network, ItsConfigurationMakesItAgain) {
  Writer w;
  assay::test::add_cnn(w);
  const auto made = w.network.finish();
  EXPECT_EQ(made->architecture(), "graph");
  const auto again = models::create_model("graph", made->config_json());
  EXPECT_EQ(again->config_json(), made->config_json());
  expect_same(*again, *made);
  EXPECT_THAT(made->config_json(),
              testing::StartsWith(R"({"name":"test","inputs":[{"name":"image","attributes":)"
                                  R"({"shape":["12","12","1"],"dtype":"f32","label":false,)"));
}

// A key that was taken and had no effect must not make a checkpoint unreadable.
TEST(Network, ThoseOfFilesMayContradictThemselves) {
  Writer w;
  assay::test::add_cnn(w);
  std::string config = w.network.finish()->config_json();
  const std::string padded = R"("padding":["2","2"],"same":)";
  ASSERT_NE(config.find(padded + "false"), std::string::npos) << config;
  config.replace(config.find(padded), padded.size() + 5, padded + "true");
  EXPECT_EQ(models::create_model("graph", config)->architecture(), "graph");
}

// A network of one linear layer, up to its logits.
struct Small : Writer {
  NetworkValue image = input("image", R"({"shape": [4, 4, 2]})");
  NetworkValue label = input("label", R"({"dtype": "i32", "label": true, "range": [0, 3]})");
  NetworkValue flat = layer("flatten", "flat", "", {image});
  NetworkValue logits = layer("linear", "fc", R"({"features": 3})", {flat});
  NetworkValue loss() { return layer("softmax_cross_entropy", "ce", "", {logits, label}); }
};

struct Misuse {
  const char *kind, *name, *keys;
  std::vector<const char*> inputs;
  const char *argument, *expected, *actual;
};

TEST(Network, WrongLayersAreRefusedByName) {
  Small w;
  const std::map<std::string, NetworkValue> by_name{
      {"image", w.image}, {"label", w.label}, {"flat", w.flat}, {"fc", w.logits}};
  for (const Misuse& row : std::vector<Misuse>{
           {"conv3d", "c", "", {"image"}, "kind", "", "conv3d"},
           {"conv2d", "c", R"({"chanels": 3})", {"image"}, "chanels", "", "chanels"},
           {"conv2d", "c", "", {"image"}, "channels", "1 to 65536", "not given"},
           {"conv2d", "c", R"({"channels": 0})", {"image"}, "channels", "1 to 65536", "0"},
           {"flatten", "f", R"({"axis": 1})", {"image"}, "axis", "none", "axis"},
           {"conv2d",
            "c",
            R"({"channels": 4, "kernel": 3})",
            {"image"},
            "kernel",
            "[rows, columns]",
            "3"},
           {"conv2d",
            "c",
            R"({"channels": 4, "kernel": [5, 3]})",
            {"image"},
            "kernel",
            "at most [4,4], rows and columns of x with its padding",
            "[5,3]"},
           {"conv2d",
            "c",
            R"({"channels": 4, "same": true, "padding": [5, 5]})",
            {"image"},
            "padding",
            "none with \"same\": true, which chooses it",
            "given"},
           {"max_pool",
            "p",
            R"({"same": true, "padding": 1})",
            {"image"},
            "padding",
            "none with \"same\": true, which chooses it",
            "given"},
           {"average_pool",
            "p",
            R"({"window": 9, "padding": 2})",
            {"image"},
            "window",
            "at most 8, rows or columns of x with its padding",
            "9"},
           {"centre_crop",
            "m",
            R"({"rows": 4, "columns": 5})",
            {"image"},
            "columns",
            "at most the 4 of x",
            "5"},
           {"add",
            "s",
            "",
            {"fc", "fc", "flat"},
            "in[2]",
            "[2,3], or what repeats to it: sizes equal or 1, from the last axis on",
            "[2,32]"},
           {"activation", "r", R"({"function": "silu"})", {"flat"}, "function", "", "\"silu\""},
           {"conv2d", "c", "[]", {"image"}, "", "an object in braces", "a list of 0"},
           {"conv2d", "c", R"({"channels": 4})", {"flat"}, "x", "[N,H,W,C]", "f32[2,32]"},
           {"conv2d", "c", R"({"channels": 4})", {"label"}, "x", "[N,H,W,C]", "i32[2]"},
           {"conv2d", "c", R"({"channels": 4})", {"image", "image"}, "in", "1: x", "2"},
           {"conv2d", "c", R"({"channels": 4})", {}, "in", "1: x", "0"},
           {"conv2d",
            "c",
            R"({"channels": 4, "kernel": [3]})",
            {"image"},
            "kernel",
            "[rows, columns]",
            "1 numbers"},
           {"conv2d",
            "c",
            R"({"channels": 4, "groups": 3})",
            {"image"},
            "groups",
            "a divisor of the 2 channels of x and of the 4 results",
            "3"},
           {"add", "a", "", {"image"}, "in", "2: a and b, or more", "1"},
           {"concat",
            "a",
            R"({"axis": 1})",
            {"image", "flat"},
            "b",
            "[2,4,4,2], but for axis 1",
            "[2,32]"},
           {"reshape",
            "r",
            R"({"shape": [-1, 5]})",
            {"image"},
            "shape",
            "to divide the 64 elements of [2,4,4,2]",
            "[-1,5]"},
           {"slice",
            "s",
            R"({"axis": 0, "size": 1})",
            {"image"},
            "axis",
            "1 to 3, or -3 to -1 from the end; axis 0 is the batch's",
            "0"},
           {"concat",
            "k",
            R"({"axis": 7})",
            {"flat", "flat"},
            "axis",
            "1, or -1 from the end; axis 0 is the batch's",
            "7"},
           {"linear",
            "fc",
            R"({"features": 3})",
            {"flat"},
            "name",
            "a name of its own; \"share\" makes two layers have the same parameters",
            "\"fc\", which is taken"},
           {"linear",
            "a..b",
            R"({"features": 3})",
            {"flat"},
            "name",
            "1 to 200 letters, digits, _ or -, with dots between",
            "\"a..b\""},
           {"linear",
            "tied",
            R"({"features": 4, "share": "fc"})",
            {"flat"},
            "share",
            "[3,32]",
            "[4,32]"},
           {"linear", "tied", R"({"features": 3, "share": "fx"})", {"flat"}, "share", "", "fx"},
           {"linear",
            "tied",
            R"({"features": 3, "share": "flat"})",
            {"flat"},
            "share",
            "a layer with parameters of the same names",
            "\"flat\""},
           {"softmax_cross_entropy",
            "ce",
            "",
            {"fc", "image"},
            "labels",
            "i32 [N]",
            "f32[2,4,4,2]"},
           {"soft_dice", "d", "", {"fc", "flat"}, "target", "[2,3], like the logits", "[2,32]"}}) {
    std::vector<NetworkValue> inputs;
    for (const char* name : row.inputs) inputs.push_back(by_name.at(name));
    const Error error = error_of([&] { w.layer(row.kind, row.name, row.keys, inputs); });
    EXPECT_NE(error.code(), Code::kOk) << row.kind << row.keys;
    EXPECT_EQ(error.detail().argument, row.argument) << error.message();
    EXPECT_EQ(error.detail().actual, row.actual) << error.message();
    EXPECT_EQ(error.detail().op_path, row.name) << error.message();
    if (*row.expected != '\0') {
      EXPECT_EQ(error.detail().expected, row.expected) << error.message();
    }
    const bool is_named = row.argument != std::string("kind");
    if (is_named) {
      EXPECT_THAT(error.message(), HasSubstr(row.name));
    }
  }
  // Nothing of it is left.
  w.output("loss", w.loss(), {}, "");
  w.output("logits", w.logits, {}, "");
  EXPECT_EQ(w.network.finish()->inputs(Mode::kTrain).size(), 2u);
}

// A table that is read on the way in and, transposed, on the way out, where a bias is added.
TEST(Network, SharedParametersAreOne) {
  Writer w;
  auto x = w.input("words", R"({"dtype": "i32", "shape": [3], "range": [0, 9]})");
  const auto label = w.input("label", R"({"dtype": "i32", "label": true, "range": [0, 9]})");
  x = w.layer("embedding", "table", R"({"rows": 9, "features": 4})", {x});
  x = w.layer("slice", "first", R"({"axis": 1, "size": 1})", {x});
  x = w.layer("reshape", "rows", R"({"shape": [-1, 4]})", {x});
  x = w.layer("linear", "out", R"({"features": 9, "share": "table"})", {x});
  w.output("loss", w.layer("softmax_cross_entropy", "ce", "", {x, label}), {}, "");
  w.output("logits", x, {}, "");
  const auto network = w.network.finish();
  VariableTable variables;
  Graph graph;
  Builder b(graph, Mode::kTrain, 2, variables, 0);
  network->forward(b);
  std::vector<std::string> names;
  for (const Variable& variable : variables.all()) names.push_back(variable.name);
  EXPECT_THAT(names, testing::ElementsAre("table.weight", "out.bias"));
}

TEST(Network, WhatKernelsIndexWithHasARange) {
  Small w;
  const auto any = w.input("any", R"({"dtype": "i32"})");
  const auto wide = w.input("wide", R"({"dtype": "i32", "shape": [1], "range": [0, 4]})");
  const auto reshaped = w.layer("reshape", "wider", R"({"shape": [-1]})", {wide});
  const auto refuse = [&](NetworkValue labels) {
    return error_of([&] { w.layer("top_k_correct", "top", "", {w.logits, labels}); }).detail();
  };
  EXPECT_EQ(refuse(any).actual, "any integers");
  EXPECT_EQ(refuse(any).op_path, "top");
  EXPECT_EQ(refuse(reshaped).actual, "[0, 4)");
  EXPECT_EQ(refuse(reshaped).expected, "[0, 3) or within, and -1 if there is padding");
}

// What is wrong with an input is said with the names of all that the layer reads.
TEST(Network, RefusalsNameWhatALayerReads) {
  Small w;
  EXPECT_EQ(
      error_of([&] {
        w.layer("add", "s", "", {w.logits, w.flat});
      }).message(),
      "s: b is [2,32], expected [2,3], or what repeats to it: sizes equal or 1, from the last "
      "axis on; it reads fc f32[2,3] and flat f32[2,32]");
  EXPECT_EQ(error_of([&] { w.layer("conv2d", "c", R"({"channels": 4})", {w.flat}); }).message(),
            "c (conv2d): x is f32[2,32], expected [N,H,W,C]; it reads flat f32[2,32]");
  const Error huge = error_of([&] {
    const auto table = w.layer("embedding", "t", R"({"rows": 9, "features": 1048576})",
                               {w.input("words", R"({"dtype": "i32", "shape": [1073741824]})")});
    w.layer("linear", "l", R"({"features": 9})", {table});
  });
  EXPECT_THAT(huge.message(), HasSubstr("no memory can hold; it reads words i32[2,1073741824]"));
  EXPECT_EQ(huge.detail().op_path, "t");
  EXPECT_EQ(huge.detail().argument, "in");
  EXPECT_EQ(huge.detail().actual, "words i32[2,1073741824]");
}

// Shapes that fit two samples, and no other number of them.
TEST(Network, ShapesHoldForEveryBatch) {
  Small w;
  const auto odd = w.layer("reshape", "odd", R"({"shape": [2, -1]})", {w.flat});
  EXPECT_EQ(error_of([&] { w.output("odd", odd, {}, ""); }).detail().actual, "f32[2,48]");
  const Error error = error_of([&] { w.layer("linear", "l", R"({"features": 3})", {odd}); });
  EXPECT_EQ(error.detail().op_path, "l");
  EXPECT_THAT(error.message(), testing::StartsWith("in a batch of 3 samples: l.weight is"));
}

// Every call refuses what could not be mended any more.
TEST(Network, WholeNetworksMustTrainAndPredict) {
  const auto refusal = [](auto&& complete) {
    Small w;
    const Error error = error_of([&] {
      complete(w);
      w.network.finish();
    });
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_FALSE(error.detail().hint.empty() && error.detail().expected.empty());
    return error.message();
  };
  EXPECT_THAT(refusal([](Small& w) { w.output("logits", w.logits, {}, ""); }),
              HasSubstr("no output is called \"loss\""));
  EXPECT_THAT(refusal([](Small& w) { w.output("cost", w.loss(), {}, ""); }),
              HasSubstr("no output is called \"loss\""));
  EXPECT_THAT(refusal([](Small& w) { w.output("loss", w.loss(), {}, ""); }),
              HasSubstr("nothing is left in a prediction"));
  const auto with_loss = [&](auto&& more) {
    return refusal([&](Small& w) {
      w.output("loss", w.loss(), {}, "");
      w.output("logits", w.logits, {}, "");
      more(w);
    });
  };
  EXPECT_THAT(with_loss([](Small& w) { w.input("more", ""); }),
              HasSubstr("the input more leads to no output"));
  EXPECT_THAT(
      with_loss([](Small& w) { w.layer("linear", "side", R"({"features": 2})", {w.flat}); }),
      HasSubstr("the loss is there already, and cannot depend on side.weight"));
  EXPECT_THAT(with_loss([](Small& w) { w.layer("flatten", "side", "", {w.image}); }),
              HasSubstr("side leads to no output"));
  EXPECT_THAT(refusal([](Small& w) {
                const auto p = w.layer("probabilities", "p", "", {w.logits});
                w.layer("linear", "late", R"({"features": 2})", {p});
              }),
              HasSubstr("late.weight is not there in training"));
  EXPECT_THAT(refusal([](Small& w) {
                w.layer("linear", "side", R"({"features": 2})", {w.flat});
                w.output("loss", w.loss(), {}, "");
              }),
              HasSubstr("loss: value is independent of side.weight, expected what"));
}

// An output that is refused is not there, and another may have its name.
TEST(Network, OutputsAreRefusedWhereTheyAreMade) {
  Small w;
  const auto refused = [&](const std::string& name, NetworkValue value, NetworkValue weight,
                           std::string_view keys) {
    const Error error = error_of([&] { w.output(name, value, weight, keys); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.message(), testing::StartsWith(name + ": "));
    return error.message();
  };
  EXPECT_EQ(refused("loss", w.logits, {}, ""),
            "loss: value is f32[2,3], expected [], a single number; a layer like "
            "\"softmax_cross_entropy\" or \"mean\" gives one");
  const auto correct = w.layer("top_k_correct", "best", "", {w.logits, w.label});
  EXPECT_THAT(refused("loss", correct, {}, ""), HasSubstr("value is not there in training"));
  const auto mean = w.layer("mean", "mean", "", {w.logits});
  EXPECT_THAT(refused("loss", mean, {}, ""),
              HasSubstr("declare the input of the answers with \"label\": true"));
  const auto loss = w.loss();
  EXPECT_THAT(refused("loss", loss, w.logits, ""),
              HasSubstr("weight is f32[2,3], expected [], a single number; a layer like "
                        "\"count_targets\" gives one"));
  const auto flatter = w.layer("reshape", "flatter", R"({"shape": [-1, 1]})", {w.logits});
  EXPECT_THAT(
      refused("rows", flatter, {}, ""),
      HasSubstr("value is f32[6,1], expected [2,...], for predictions give a row for each of 2"));
  EXPECT_THAT(refused("mean", mean, {}, ""), HasSubstr("\"label\": true"));
  EXPECT_THAT(refused("logits", w.logits, {}, R"({"reduction": "sum"})"),
              HasSubstr("reduction is \"sum\", expected \"last\" for f32[2,3]"));
  EXPECT_TRUE(w.network.config().outputs.empty());
  w.output("loss", loss, {}, "");
  w.output("rows", w.layer("reshape", "back", R"({"shape": [-1, 3]})", {flatter}), {}, "");
  w.output("best", correct, {}, "");
}

TEST(Network, InputsAndOutputsAreChecked) {
  Small w;
  const auto refused = [&](auto&& call) { return error_of(call).detail(); };
  EXPECT_EQ(refused([&] { w.input("image", ""); }).argument, "name");
  EXPECT_EQ(refused([&] { w.input("a.b", ""); }).argument, "name");
  EXPECT_EQ(refused([&] { w.input("x", R"({"dtype": "f16"})"); }).argument, "dtype");
  EXPECT_EQ(refused([&] { w.input("x", R"({"shape": [0]})"); }).argument, "shape[0]");
  EXPECT_EQ(refused([&] { w.input("x", R"({"range": [0, 4]})"); }).argument, "range");
  EXPECT_EQ(refused([&] { w.input("x", R"({"dtype": "i32", "range": [4]})"); }).argument, "range");
  EXPECT_EQ(refused([&] { w.input("x", R"({"dtype": "i32", "padding": 0})"); }).argument,
            "padding");
  EXPECT_EQ(refused([&] { w.output("skip", w.logits, {}, ""); }).argument, "name");
  EXPECT_EQ(refused([&] { w.output("image", w.image, {}, ""); }).argument, "value");
  EXPECT_EQ(refused([&] { w.output("x", {99}, {}, ""); }).argument, "value");
  EXPECT_EQ(refused([&] { w.output("x", w.logits, {99}, ""); }).argument, "weight");
  EXPECT_EQ(refused([&] { w.output("x", w.logits, {}, R"({"reduction": "max"})"); }).argument,
            "reduction");
  w.output("x", w.logits, {}, "");
  EXPECT_EQ(refused([&] { w.output("x", w.logits, {}, ""); }).argument, "name");
}

// Texts of other programs, or of damaged files.
TEST(Network, TextsThatAreNoNetworkAreRefused) {
  const auto refusal = [](std::string_view text) {
    const Error error = error_of([&] { models::create_model("graph", text); });
    EXPECT_NE(error.code(), Code::kOk) << text;
    EXPECT_NE(error.code(), Code::kInternal) << error.message();
    return error.message();
  };
  refusal("");
  refusal("{}");
  refusal(R"({"name": 3})");
  EXPECT_THAT(refusal(R"({"layers": [{"kind": "add", "name": "a", "inputs": ["b", "c"]}]})"),
              HasSubstr("no input or layer before is called \"b\""));
  EXPECT_THAT(refusal(R"({"inputs": [{"name": "x", "attributes": {"shape": [2]}}], "layers": [
                {"kind": "linear", "name": "a", "inputs": ["x"], "attributes": 3}]})"),
              HasSubstr("an object in braces"));
}

}  // namespace
}  // namespace assay::nn
