// The headers are the contract: every key of a configuration is explained there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "datasets/text_conversion.h"
#include "models/models.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/augment/micrograph_transform.h"
#include "sdk/data/loader_config.h"
#include "sdk/nn/layer_kind.h"
#include "sdk/train/trainer_config.h"

namespace {

const std::string kRoot = ASSAY_SOURCE_DIR;

std::string read(const std::string& path) {
  std::ifstream file(kRoot + "/" + path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_documented(const assay::JsonSchema& schema, const std::string& header) {
  for (const assay::JsonSchema::Key& key : schema.keys) {
    EXPECT_NE(header.find('"' + key.name + '"'), std::string::npos)
        << "the header does not explain \"" << key.name << "\"";
    if (key.object) expect_documented(*key.object, header);
  }
}

template <class Config>
void expect_documented(const std::string& header) {
  Config config;
  const assay::JsonSchema schema =
      assay::config_schema(assay::ConfigFields(assay::config_ref(config)));
  EXPECT_GT(schema.keys.size(), 3u);
  expect_documented(schema, read(header));
}

TEST(Configuration, EveryKeyIsExplainedInTheHeaders) {
  const std::string engine = "capi/include/assay/assay.h";
  const std::string data = "capi/include/assay/assay_data.h";
  expect_documented<assay::train::TrainerConfig>(engine);
  expect_documented<assay::data::LoaderConfig>(data);
  expect_documented<assay::data::ImageTransformConfig>(data);
  expect_documented<assay::data::JpegTransformConfig>(data);
  expect_documented<assay::data::DetectionTransformConfig>(data);
  expect_documented<assay::data::MicrographTransformConfig>(data);
  expect_documented<assay::datasets::TokenTransformConfig>(data);
  for (const assay::models::ModelEntry& model : assay::models::model_entries()) {
    const std::string shown = model.create("")->config_json();
    for (const auto& member : assay::parse_json_text({shown, model.name}).members)
      EXPECT_NE(read(engine).find('"' + member.key + '"'), std::string::npos) << member.key;
  }
}

// The kinds of layers stand there word for word as their declarations tell of them:
// ASSAY_UPDATE_GOLDEN=1 copies them.
TEST(Configuration, EveryKindOfLayerIsInTheHeader) {
  const std::string path = "capi/include/assay/assay_graph.h";
  const std::string header = read(path);
  std::istringstream lines(assay::nn::layer_kinds_text());
  std::string kinds;
  for (std::string line; std::getline(lines, line);) kinds += " * " + line + "\n";
  const std::string before = "its default and its meaning.\n *\n",
                    behind = " */\n\n/* Gives a value";
  const size_t begin = header.find(before) + before.size(), end = header.find(behind, begin);
  ASSERT_NE(end, std::string::npos);
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr)
    std::ofstream(kRoot + "/" + path) << header.substr(0, begin) << kinds << header.substr(end);
  EXPECT_EQ(read(path).substr(begin, kinds.size() + behind.size()), kinds + behind);
}

TEST(Configuration, EveryModelHasItsPartInTheHeader) {
  const std::string header = read("capi/include/assay/assay.h");
  const std::string list = read("models/models.cpp");
  const std::regex entry(R"re(ModelEntry\{"(\w+)")re");
  int models = 0;
  for (auto it = std::sregex_iterator(list.begin(), list.end(), entry);
       it != std::sregex_iterator(); ++it, ++models) {
    EXPECT_NE(header.find("\n * \"" + (*it)[1].str() + "\": "), std::string::npos) << (*it)[1];
  }
  EXPECT_GT(models, 1);
}

}  // namespace
