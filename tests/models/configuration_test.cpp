// Configurations that make no sense are refused, and the error says which key is at fault, what it
// is and what it should be.
#include <gtest/gtest.h>

#include "models/models.h"
#include "sdk/base/error.h"

namespace assay::models {
namespace {

ErrorDetail refusal(std::string_view architecture, std::string_view config) {
  try {
    create_model(architecture, config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid) << config;
    return error.detail();
  }
  ADD_FAILURE() << architecture << " took " << config;
  return {};
}

struct Row {
  const char *architecture, *config, *argument, *actual;
};

// What is given counts: 0, "" and [] are no way of asking for the default.
TEST(ModelConfiguration, NothingIsNoDefault) {
  for (const Row& row :
       {Row{"cnn", R"({"classes": 0})", "classes", "0"},
        Row{"cnn", R"({"kernel": 0})", "kernel", "0"},
        Row{"cnn", R"({"activation": ""})", "activation", "not given"},
        Row{"cnn", R"({"image": []})", "image", "[]"}, Row{"cnn", R"({"conv": []})", "conv", "[]"},
        Row{"cnn", R"({"hidden": []})", "hidden", "[]"},
        Row{"resnet18", R"({"classes": 0})", "classes", "0"},
        Row{"resnet18", R"({"width": 0})", "width", "0"},
        Row{"resnet18", R"({"stem": ""})", "stem", "not given"},
        Row{"resnet18", R"({"image": []})", "image", "[]"},
        Row{"resnet50", R"({"classes": 0})", "classes", "0"},
        Row{"resnet50", R"({"width": 0})", "width", "0"},
        Row{"resnet50", R"({"image": []})", "image", "[]"},
        Row{"unet_medical", R"({"classes": 0})", "classes", "0"},
        Row{"unet_medical", R"({"width": 0})", "width", "0"},
        Row{"unet_medical", R"({"depth": 0})", "depth", "0"},
        Row{"unet_medical", R"({"image": []})", "image", "[]"}}) {
    const ErrorDetail detail = refusal(row.architecture, row.config);
    EXPECT_EQ(detail.argument, row.argument) << row.config;
    EXPECT_EQ(detail.actual, row.actual) << row.config;
    EXPECT_FALSE(detail.expected.empty()) << row.config;
  }
}

TEST(ModelConfiguration, SenselessValuesAreNamed) {
  for (const Row& row :
       {Row{"bert_base", R"({"epsilon": 0})", "epsilon", "0"},
        Row{"bert_base", R"({"heads": 5})", "hidden", "768"},
        Row{"bert_base", R"({"gelu": "exact"})", "gelu", "\"exact\""},
        Row{"electra_base_pretraining", R"({"cls": 30528})", "cls", "30528"},
        Row{"electra_base_qa", R"({"beam": 513})", "beam", "513"},
        Row{"electra_base_qa", R"({"version": "2"})", "version", "\"2\""},
        Row{"cnn", R"({"image": [28, 28]})", "image", "2 numbers"},
        Row{"cnn", R"({"image": [2, 28, 1]})", "image", "2 pixels at its shorter side"},
        Row{"cnn", R"({"kernel": 4})", "kernel", "4"},
        Row{"resnet18", R"({"stem": "imagnet"})", "stem", "\"imagnet\""},
        Row{"resnet18", R"({"width": 5000})", "width", "5000"},
        Row{"resnet50", R"({"width": -1})", "width", "-1"},
        Row{"unet_medical", R"({"dropout": 1})", "dropout", "1"},
        Row{"unet_medical", R"({"image": [570, 572, 1]})", "image",
            "570 pixels in one direction"}}) {
    const ErrorDetail detail = refusal(row.architecture, row.config);
    EXPECT_EQ(detail.argument, row.argument) << row.config;
    EXPECT_EQ(detail.actual, row.actual) << row.config;
    EXPECT_FALSE(detail.expected.empty()) << row.config;
  }
  EXPECT_EQ(refusal("resnet18", R"({"stem": "imagnet"})").hint, "did you mean \"imagenet\"?");
}

// The configuration a model shows makes the same model again.
TEST(ModelConfiguration, ShownConfigurationsAreTaken) {
  for (const ModelEntry& entry : model_entries()) {
    const std::string shown = entry.create("")->config_json();
    EXPECT_EQ(entry.create(shown)->config_json(), shown);
  }
  EXPECT_EQ(create_model("cnn", R"({"hidden": [0]})")->inputs(nn::Mode::kEval).size(), 2u);
}

}  // namespace
}  // namespace assay::models
