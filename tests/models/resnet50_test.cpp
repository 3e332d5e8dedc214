// ResNet-50 v1.5 as published: sizes, initial values, names. Its numbers are in parity_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "models/models.h"
#include "sdk/backend/cpu/device.h"
#include "sdk/train/model_instance.h"

namespace assay::models {
namespace {

// The model written out for a batch, without memory.
struct Written {
  explicit Written(std::string_view config, nn::Mode mode = nn::Mode::kTrain, int64_t batch = 2) {
    nn::Builder builder(graph, mode, batch, variables, 0);
    create_model("resnet50", config)->forward(builder);
  }
  int64_t elements(Role role) const {
    int64_t sum = 0;
    for (const Variable& variable : variables.all())
      if (variable.role == role) sum += variable.dims.numel();
    return sum;
  }
  template <class Op>
  std::vector<const Node*> nodes() const {
    std::vector<const Node*> found;
    for (const Node& node : graph.nodes())
      if (std::holds_alternative<Op>(node.op)) found.push_back(&node);
    return found;
  }
  const Dims& dims(ValueId value) const { return graph.type(value).dims; }

  Graph graph;
  VariableTable variables;
};

const char* const kFourChannels = R"({"image": [224, 224, 4]})";

TEST(ResNet50, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(Written("").elements(Role::kValue), 25'557'032);
  EXPECT_EQ(Written("").elements(Role::kStatistic), 53'120);
  EXPECT_EQ(Written(kFourChannels).elements(Role::kValue), 25'560'168);
}

TEST(ResNet50, Has53ConvolutionsAndBatchNorms) {
  const Written model("");
  const auto convolutions = model.nodes<Conv2d>();
  const auto norms = model.nodes<BatchNorm>();
  EXPECT_EQ(convolutions.size(), 53u);
  EXPECT_EQ(norms.size(), 53u);
  int64_t channels = 0;
  for (const Node* norm : norms) channels += model.dims(norm->inputs[1])[0];
  EXPECT_EQ(channels, 26'560);
  std::map<std::string, int64_t> weights;  // by stage
  for (const Node* convolution : convolutions)
    weights[convolution->scope.substr(0, 6)] += model.dims(convolution->inputs[1]).numel();
  const std::map<std::string, int64_t> expected{{"conv1", 9'408},
                                                {"layer1", 212'992},
                                                {"layer2", 1'212'416},
                                                {"layer3", 7'077'888},
                                                {"layer4", 14'942'208}};
  EXPECT_EQ(weights, expected);
}

// Multiply-adds of one image: v1, with its stride on the first convolution of a block, has fewer.
int64_t multiply_adds(const Written& model) {
  int64_t sum = 0;
  for (const Node* node : model.nodes<Conv2d>()) {
    const Dims& w = model.dims(node->inputs[1]);
    sum += model.dims(node->outputs[0]).numel() * (w.numel() / w[0]);
  }
  for (const Node* node : model.nodes<Matmul>())
    sum += model.dims(node->outputs[0]).numel() * model.dims(node->inputs[1])[1];
  return sum;
}

TEST(ResNet50, HasTheStrideOfVersionOneAndAHalf) {
  EXPECT_EQ(multiply_adds(Written("", nn::Mode::kPredict, 1)), 4'089'184'256);
  EXPECT_EQ(multiply_adds(Written(kFourChannels, nn::Mode::kPredict, 1)), 4'128'522'240);
  int64_t outputs = 0;
  const Written model("", nn::Mode::kPredict, 1);
  for (const Node* node : model.nodes<Conv2d>()) outputs += model.dims(node->outputs[0]).numel();
  EXPECT_EQ(outputs, 11'113'984);
}

double deviation(const Written& model, const std::string& name) {
  const Initializer& init = model.variables.find(name)->initializer;
  EXPECT_EQ(init.kind, Initializer::Kind::kNormal) << name;
  return init.a;
}

TEST(ResNet50, DrawsWeightsByTheirFanIn) {
  const Written model("");
  EXPECT_NEAR(deviation(model, "conv1.weight"), 0.11664, 5e-6);
  EXPECT_NEAR(deviation(Written(kFourChannels), "conv1.weight"), 0.10102, 5e-6);
  EXPECT_EQ(deviation(model, "fc.weight"), 0.03125);
  for (const Node* node : model.nodes<Conv2d>()) {
    const Dims& w = model.dims(node->inputs[1]);
    EXPECT_NEAR(deviation(model, node->scope + ".weight"), std::sqrt(2.0 * w[0] / w.numel()), 1e-12)
        << node->scope;
  }
}

// Scale 0, and with it the running variance, in the last norm of each block and nowhere else.
TEST(ResNet50, StartsBlocksAsTheirShortcuts) {
  for (const char* config : {"", R"({"zero_last_gamma": false})"}) {
    const Written model(config);
    for (const Variable& variable : model.variables.all()) {
      const auto [kind, value] = variable.initializer;
      const bool last = variable.name.find(".bn3.") != std::string::npos;
      if (variable.name.ends_with("running_var") ||
          (variable.name.ends_with(".weight") && variable.dims.rank() == 1)) {
        EXPECT_EQ(value, last && *config == '\0' ? 0.0 : 1.0) << variable.name;
      } else if (variable.dims.rank() == 1) {  // shifts, running means, the classifier's bias
        EXPECT_EQ(value, 0.0) << variable.name;
      } else {
        continue;
      }
      EXPECT_EQ(kind, Initializer::Kind::kConstant) << variable.name;
    }
  }
}

TEST(ResNet50, KeepsRunningVariancesWithTheDivisorAsked) {
  Graph graph;
  VariableTable variables;
  for (const bool biased : {false, true}) {
    nn::Builder builder(graph, nn::Mode::kTrain, 2, variables, 0);
    create_model("resnet50", cat("{\"biased_running_variance\": ", biased ? "true" : "false", "}"))
        ->forward(builder);
    ASSERT_EQ(builder.statistics_updates().size(), 53u);
    EXPECT_EQ(builder.statistics_updates()[0].op.count, biased ? 0 : 2 * 112 * 112);
    EXPECT_EQ(builder.statistics_updates()[0].op.momentum, 0.1f);
    if (!biased) graph = {}, variables = {};
  }
}

// tests/fixtures/models/resnet50_torchvision.tsv: names and shapes of torchvision's resnet50, as
// torchvision's state_dict gives them (convolutions O,I,H,W).
TEST(ResNet50, HasTorchvisionsNamesAndShapes) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR) +
                     "/tests/fixtures/models/resnet50_torchvision.tsv");
  ASSERT_TRUE(file.is_open());
  const Written model("");
  size_t found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    std::vector<int64_t> shape;
    in >> name;
    for (int64_t size = 0; in >> size;) shape.push_back(size);
    if (shape.size() == 4) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    const Variable* variable = model.variables.find(name);
    ASSERT_NE(variable, nullptr) << name;
    EXPECT_EQ(variable->dims, Dims(shape)) << name;
    ++found;
  }
  EXPECT_EQ(found, model.variables.all().size());
}

TEST(ResNet50, RefusesABatchThatGivesOneValuePerChannel) {
  EXPECT_NO_THROW(Written("", nn::Mode::kTrain, 1));  // 7x7 values per channel at the end
  try {
    Written(R"({"image": [32, 32, 3]})", nn::Mode::kTrain, 1);
    ADD_FAILURE() << "normalised a single value";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    const std::string message = error.what();
    EXPECT_NE(message.find("layer4.0.bn2"), std::string::npos) << message;
    EXPECT_NE(message.find("more than one value per channel"), std::string::npos) << message;
  }
}

TEST(ResNet50, RefusesBadConfigurations) {
  for (const char* config : {R"({"image": [224, 224]})", R"({"image": [0, 224, 3]})",
                             R"({"classes": 1})", R"({"width": -1})", R"({"stem": "cifar"})"}) {
    EXPECT_THROW(create_model("resnet50", config), Error) << config;
  }
}

}  // namespace
}  // namespace assay::models
