// Exported predictors, read back: the nodes as golden text (after a change that is meant:
// ASSAY_UPDATE_GOLDEN=1 train_test --gtest_filter='Onnx*', and read the diff), the weights by hand.
// What they compute tests/fixtures/exchange/check_onnx.py compares with ONNX Runtime.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/train/onnx/converter.h"
#include "sdk/train/onnx/export.h"
#include "tests/harness/error_of.h"

namespace assay::onnx {
namespace {

// One line for each input, constant, node and output; bodies of loops stand behind their nodes.
std::string text_of(const pb::ValueInfo& info) {
  std::string text = info.name() + " [";
  for (const pb::Dimension& dim : info.type().tensor_type().shape().dim())
    text += cat(text.back() == '[' ? "" : ",", dim.has_dim_param()   ? dim.dim_param()
                                               : dim.has_dim_value() ? cat(dim.dim_value())
                                                                     : "?");
  return text + "]";
}

std::string text_of(const pb::Graph& graph) {
  std::string text;
  for (const pb::ValueInfo& input : graph.input()) text += cat("input ", text_of(input), "\n");
  for (const pb::Tensor& constant : graph.initializer()) {
    text += cat("constant ", constant.name(), " [");
    for (const int64_t dim : constant.dims()) text += cat(text.back() == '[' ? "" : ",", dim);
    text += "]\n";
  }
  for (const pb::Node& node : graph.node()) {
    std::string bodies;
    for (const std::string& output : node.output()) text += output + " ";
    text += cat("= ", node.op_type());
    for (const std::string& input : node.input()) text += cat(" ", input.empty() ? "-" : input);
    for (const pb::Attribute& attribute : node.attribute()) {
      text += cat(" ", attribute.name(), "=");
      if (attribute.has_i()) text += cat(attribute.i());
      if (attribute.has_f()) text += cat(attribute.f());
      text += attribute.s();
      for (const int64_t i : attribute.ints()) text += cat(i, ",");
      if (attribute.has_g()) bodies += cat("{\n", text_of(attribute.g()), "}\n");
    }
    text += "\n" + bodies;
  }
  for (const pb::ValueInfo& output : graph.output()) text += cat("output ", text_of(output), "\n");
  return text;
}

pb::Model exported(const train::Predictor& predictor, const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name + ".onnx";
  const ExportReport report = export_predictor(predictor, path);
  EXPECT_EQ(report.file_bytes, std::filesystem::file_size(path));
  pb::Model model;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  EXPECT_EQ(report.nodes, model.graph().node_size());
  std::filesystem::remove(path);
  return model;
}

struct Made {
  std::shared_ptr<train::ModelInstance> instance;
  std::unique_ptr<train::Predictor> predictor;
};
Made made(const std::string& architecture, const std::string& config,
          train::PredictorOptions options = {}) {
  Made made;
  made.instance = std::make_shared<train::ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(architecture, config)),
      std::shared_ptr<Backend>(cpu::make_backend({.threads = 1})));
  made.instance->ensure_initialized(1);
  made.predictor = std::make_unique<train::Predictor>(*made.instance, std::move(options));
  return made;
}

void compare_with_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(ASSAY_SOURCE_DIR) + "/tests/golden/onnx/" + name + ".txt";
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << "no golden file " << path;
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << path;
}

struct GoldenCase {
  std::string name, architecture, config;
  train::PredictorOptions options;
};
std::ostream& operator<<(std::ostream& out, const GoldenCase& c) { return out << c.name; }

class OnnxGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(OnnxGolden, Nodes) {
  const GoldenCase& c = GetParam();
  const Made model = made(c.architecture, c.config, c.options);
  const pb::Model file = exported(*model.predictor, c.name);
  ASSERT_EQ(file.opset_import_size(), 1);
  EXPECT_EQ(file.opset_import(0).version(), 17);
  compare_with_golden(c.name, text_of(file.graph()));
}

constexpr const char* kEncoder =
    R"("hidden": 8, "layers": 1, "heads": 2, "inner": 12, "vocabulary": 30, "positions": 10)";
INSTANTIATE_TEST_SUITE_P(
    Models, OnnxGolden,
    testing::Values(
        GoldenCase{"cnn", "cnn", R"({"image": [8, 6, 1], "conv": [4], "hidden": [5]})", {}},
        GoldenCase{"resnet18", "resnet18", R"({"image": [16, 16, 3], "width": 4})", {}},
        GoldenCase{"resnet50", "resnet50", R"({"image": [32, 32, 3], "width": 4})", {}},
        GoldenCase{"unet_medical",
                   "unet_medical",
                   R"({"image": [44, 44, 1], "width": 2, "depth": 1})",
                   {}},
        GoldenCase{"bert_base",
                   "bert_base",
                   cat("{", kEncoder, "}"),
                   {.sequence_length = 6, .prediction_slots = 2}},
        GoldenCase{"electra_base_pretraining",
                   "electra_base_pretraining",
                   cat("{", kEncoder,
                       R"(, "generator_hidden": 4, "generator_heads": 1, "generator_inner": 6,
                       "generator_layers": 1, "cls": 1, "sep": 2, "mask": 3})"),
                   {.sequence_length = 6, .prediction_slots = 2}},
        GoldenCase{"electra_base_qa",
                   "electra_base_qa",
                   cat("{", kEncoder, R"(, "version": "2.0", "beam": 2})"),
                   {.sequence_length = 6}}),
    [](const auto& its) { return its.param.name; });

const pb::Tensor& constant(const pb::Model& file, const std::string& name) {
  for (const pb::Tensor& tensor : file.graph().initializer())
    if (tensor.name() == name) return tensor;
  ADD_FAILURE() << "no constant " << name;
  return file.graph().initializer(0);
}

TEST(Onnx, WeightsOfConvolutionsHaveTheirChannelsBeforeTheirWindows) {
  const Made model =
      made("cnn", R"({"image": [8, 6, 3], "conv": [4], "kernel": 3, "hidden": [0]})");
  const pb::Model file = exported(*model.predictor, "weights");
  const pb::Tensor& theirs = constant(file, "block1.conv.weight");
  const auto* ours = static_cast<const float*>(
      model.instance->segments().tensor("block1.conv.weight", Role::kValue).data);
  ASSERT_EQ(theirs.raw_data().size(), 4u * 3 * 3 * 3 * sizeof(float));
  const auto* numbers = reinterpret_cast<const float*>(theirs.raw_data().data());
  for (int k = 0; k < 4; ++k) {
    for (int place = 0; place < 9; ++place) {
      for (int c = 0; c < 3; ++c)
        EXPECT_EQ(numbers[(k * 3 + c) * 9 + place], ours[(k * 9 + place) * 3 + c]);
    }
  }
}

// A detector's graph is long; what counts is that images stay images, and that suppression is one
// loop.
TEST(Onnx, DetectorsTransposeAtTheBordersOnly) {
  const Made model = made("efficientdet_d0", R"({"classes": 3, "width": 8, "cells": 1})",
                          {.image_size = {128, 128}});
  const pb::Model file = exported(*model.predictor, "detector");
  std::map<std::string, int> counts;
  for (const pb::Node& node : file.graph().node()) ++counts[node.op_type()];
  // The image, ten heads, three results of the loop.
  EXPECT_EQ(counts["Transpose"], 1 + 10 + 3);
  EXPECT_EQ(counts["Loop"], 1);
  EXPECT_EQ(counts["Resize"], 4);  // of the levels of a cell
}

TEST(Onnx, OpsWithoutACounterpartAreNamed) {
  Graph smaller, larger;
  for (Graph* graph : {&smaller, &larger}) {
    const int64_t batch = kBatches[graph == &larger];
    const ValueId x = graph->emit1(Input{"x", DType::kF32, {batch, 3}}, {});
    graph->set_scope("head");
    graph->outputs().push_back({"count", graph->emit1(CountTargets{}, {x})});
  }
  pb::Graph to;
  Converter converter(smaller, larger, {}, to);
  const Error error = test::error_of([&] { converter.convert({1}); });
  EXPECT_EQ(error.code(), Code::kUnsupported);
  EXPECT_EQ(error.message(),
            "cannot be exported to ONNX: op count_targets at head has no counterpart");
}

TEST(Onnx, WhatCannotBeWrittenLeavesNothing) {
  const Made model = made("cnn", R"({"image": [8, 6, 1], "conv": [4], "hidden": [5]})");
  const std::string path = testing::TempDir() + "/no-such-folder/x.onnx";
  const Error error = test::error_of([&] { export_predictor(*model.predictor, path); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  // The disk is full in the middle of it, when protobuf writes.
  const std::string folder = testing::TempDir() + "/onnx_full";
  std::filesystem::create_directories(folder);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  const Error full =
      test::error_of([&] { export_predictor(*model.predictor, folder + "/x.onnx"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.code(), Code::kIo);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace assay::onnx
