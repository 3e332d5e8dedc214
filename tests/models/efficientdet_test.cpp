// EfficientDet-D0 as published: sizes, initial values, names; and its numbers against effdet in
// float64 (fixtures/models/make_efficientdet.py, which makes up the same weights and images).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "models/models.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/train/checkpoint/name_map.h"
#include "sdk/train/predictor.h"
#include "tests/models/loaded.h"
#include "tests/models/made_up.h"

namespace assay::test {
namespace {

const char* const kName = "efficientdet_d0";

// The model written out for a batch, without memory.
struct Written {
  explicit Written(std::string_view config = "", nn::Mode mode = nn::Mode::kTrain,
                   const nn::TrainingOptions& options = {}, int64_t batch = 1) {
    nn::Builder builder(graph, mode, batch, variables, 0);
    std::shared_ptr<const nn::Model> model = models::create_model(kName, config);
    if (options != nn::TrainingOptions{}) model = model->configured(options);
    outputs = model->forward(builder);
    statistics = builder.statistics_updates();
  }
  int64_t elements(Role role, std::string_view prefix = "") const {
    int64_t sum = 0;
    for (const Variable& variable : variables.all())
      if (variable.role == role && variable.name.starts_with(prefix)) sum += variable.dims.numel();
    return sum;
  }

  Graph graph;
  VariableTable variables;
  nn::Outputs outputs;
  std::vector<nn::Builder::StatisticsUpdate> statistics;
};

// The batches of a loader go into a trainer as they are.
TEST(EfficientDet, TakesTheSamplesOfItsTransform) {
  data::DetectionTransformConfig config;
  config.size = {384, 256};
  nn::TrainingOptions options;
  options.image_size = {384, 256};
  const data::Transform transform = data::make_detection_transform(90, config);
  const auto model = models::create_model(kName, "")->configured(options);
  for (const nn::Mode mode : {nn::Mode::kTrain, nn::Mode::kEval}) {
    const std::vector<nn::InputSpec> inputs = model->inputs(mode);
    ASSERT_EQ(inputs.size(), transform.arrays.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const data::ArraySpec& array = transform.arrays[i];
      EXPECT_EQ(array.name, inputs[i].name);
      EXPECT_EQ(array.dtype, inputs[i].dtype) << array.name;
      EXPECT_EQ(array.dims, inputs[i].sample) << array.name;
      EXPECT_EQ(inputs[i].padding.value_or(array.pad), array.pad) << array.name;
    }
  }
}

TEST(EfficientDet, HasThePublishedNumberOfParameters) {
  const Written model;
  EXPECT_EQ(model.elements(Role::kValue), 3'880'652);
  EXPECT_EQ(model.elements(Role::kStatistic), 47'136);
  EXPECT_EQ(Written(R"({"classes": 90})").elements(Role::kValue), 3'880'067);
  struct Part {
    const char* prefix;
    int64_t values, statistics;
  };
  for (const Part& part : {Part{"backbone.", 3'595'388, 39'456}, Part{"fpn.resample.", 20'672, 128},
                           Part{"fpn.cell.0.", 97'747, 1'664}, Part{"fpn.cell.1.", 38'931, 1'024},
                           Part{"fpn.cell.2.", 38'931, 1'024}, Part{"class_net.", 69'939, 1'920},
                           Part{"box_net.", 19'044, 1'920}}) {
    EXPECT_EQ(model.elements(Role::kValue, part.prefix), part.values) << part.prefix;
    EXPECT_EQ(model.elements(Role::kStatistic, part.prefix), part.statistics) << part.prefix;
  }
}

TEST(EfficientDet, HasThePublishedKernels) {
  int64_t kernels = 0, scalars = 0;
  const Written model;
  for (const Variable& variable : model.variables.all()) {
    if (variable.kind == VariableKind::kKernel) kernels += variable.dims.numel();
    if (variable.kind == VariableKind::kScalar) scalars += variable.dims.numel();
  }
  EXPECT_EQ(kernels, 3'820'960);
  EXPECT_EQ(scalars, 57);
}

// Multiply-adds of an image, by part.
TEST(EfficientDet, ComputesWhatIsPublished) {
  const Written model("", nn::Mode::kPredict);
  std::map<std::string, int64_t> parts;
  for (const Node& node : model.graph.nodes()) {
    if (!std::holds_alternative<Conv2d>(node.op)) continue;
    const Dims w = model.graph.type(node.inputs[1]).dims;
    const int64_t sums = model.graph.type(node.outputs[0]).numel() * (w.numel() / w[0]);
    const size_t end = node.scope.starts_with("fpn.cell") ? 10 : node.scope.find('.');
    parts[node.scope.substr(0, end)] += sums;
  }
  const std::map<std::string, int64_t> expected{
      {"backbone", 1'901'490'688}, {"fpn", 5'242'880},         {"fpn.cell.0", 67'421'184},
      {"fpn.cell.1", 31'769'600},  {"fpn.cell.2", 31'769'600}, {"class_net", 365'595'648},
      {"box_net", 92'184'576},
  };
  EXPECT_EQ(parts, expected);
}

// tests/fixtures/models/efficientdet_d0_effdet.tsv: effdet's state_dict (convolutions O,I,H,W).
TEST(EfficientDet, HasEffdetsNamesAndShapes) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR) +
                     "/tests/fixtures/models/efficientdet_d0_effdet.tsv");
  ASSERT_TRUE(file.is_open());
  const Written model;
  size_t found = 0;
  for (std::string line; std::getline(file, line); ++found) {
    std::istringstream in(line);
    std::string name;
    std::vector<int64_t> shape;
    in >> name;
    for (int64_t size = 0; in >> size;) shape.push_back(size);
    if (shape.size() == 4) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    const Variable* variable = model.variables.find(name);
    ASSERT_NE(variable, nullptr) << name;
    EXPECT_EQ(variable->dims, Dims(shape)) << name;
  }
  EXPECT_EQ(found, model.variables.all().size());
}

// timm's file of the backbone has, beyond it, the classifier and what leads to it.
TEST(EfficientDet, TakesItsBackboneFromTimm) {
  const std::string path = std::string(ASSAY_SOURCE_DIR) + "/models/names/";
  const auto map_of = [&](const char* file) {
    std::ifstream in(path + file);
    return weights::parse_name_map(std::string(std::istreambuf_iterator<char>(in), {}));
  };
  const weights::NameMap timm = map_of("efficientnet_b0_timm.json");
  const weights::NameMap effdet = map_of("effdet.json");
  const Written model;
  for (const Variable& variable : model.variables.all()) {
    EXPECT_EQ(weights::name_in_file(effdet, variable.name)->name, variable.name);
    const auto file = weights::name_in_file(timm, variable.name);
    ASSERT_EQ(file.has_value(), variable.name.starts_with("backbone.")) << variable.name;
    if (!file) continue;
    EXPECT_EQ("backbone." + file->name, variable.name);
    EXPECT_EQ(weights::name_in_model(timm, file->name)->name, variable.name);
    if (variable.dims.rank() == 4) {
      EXPECT_EQ(file->rule->layout, "OIHW");
    }
  }
  for (const char* other : {"conv_head.weight", "bn2.running_var", "classifier.bias"})
    EXPECT_FALSE(weights::name_in_model(timm, other)) << other;
}

TEST(EfficientDet, DrawsWeightsAsTensorFlowDoes) {
  const Written model;
  const auto is = [&](const std::string& name, Initializer::Kind kind, double value) {
    const Initializer& init = model.variables.find(name)->initializer;
    EXPECT_EQ(init.kind, kind) << name;
    EXPECT_NEAR(init.a, value, 1e-5 * std::abs(value)) << name;
  };
  using Kind = Initializer::Kind;
  const double cut = 0.87962566;
  is("backbone.conv_stem.weight", Kind::kTruncatedNormal, std::sqrt(2.0 / 27) / cut);
  is("backbone.blocks.2.0.conv_dw.weight", Kind::kTruncatedNormal,
     std::sqrt(2.0 / (25 * 144)) / cut);
  is("backbone.blocks.2.0.se.conv_reduce.weight", Kind::kTruncatedNormal,
     std::sqrt(2.0 / 144) / cut);
  is("fpn.resample.3.conv.conv.weight", Kind::kUniform, std::sqrt(6.0 / (320 + 64)));
  is("fpn.cell.1.fnode.2.after_combine.conv.conv_dw.weight", Kind::kUniform, 0.10127394);
  is("fpn.cell.1.fnode.2.after_combine.conv.conv_pw.weight", Kind::kUniform, 0.21650635);
  is("class_net.conv_rep.0.conv_dw.weight", Kind::kTruncatedNormal, 0.04736825);
  is("class_net.predict.conv_pw.weight", Kind::kTruncatedNormal, 0.14210474);
  is("class_net.predict.conv_pw.bias", Kind::kConstant, -4.59511985);
  is("box_net.predict.conv_pw.bias", Kind::kConstant, 0);
  is("fpn.cell.0.fnode.4.combine.edge_weights", Kind::kConstant, 1);
}

TEST(EfficientDet, NormsKeepAsMuchOfTheirStatisticsAsIsSaid) {
  for (const auto& [config, of_new] :
       {std::pair{"", 0.01f}, std::pair{R"({"norm_momentum": 0.9})", 0.1f}}) {
    const Written model(config);
    const auto& all = model.variables.all();
    const auto is_mean = [](const Variable& v) { return v.name.ends_with("running_mean"); };
    EXPECT_EQ(std::ssize(model.statistics), std::count_if(all.begin(), all.end(), is_mean));
    for (const nn::Builder::StatisticsUpdate& update : model.statistics)
      EXPECT_FLOAT_EQ(update.op.momentum, of_new);
  }
}

TEST(EfficientDet, TakesImagesOfSeveralSizesThatAreNoPartOfIt) {
  nn::TrainingOptions options;
  options.image_size = {256, 384};
  const Written model("", nn::Mode::kEval, options);
  for (const nn::Output& output : model.outputs) {
    const Dims dims = model.graph.type(output.value).dims;
    if (output.name == "class_logits.3") {
      EXPECT_EQ(dims, (Dims{1, 32, 48, 819}));
    } else if (output.name == "box_codes.7") {
      EXPECT_EQ(dims, (Dims{1, 2, 3, 36}));
    }
  }
  const std::shared_ptr<const nn::Model> plain = models::create_model(kName, "");
  EXPECT_EQ(plain->configured(options)->config_json(), plain->config_json());
  for (const std::vector<int64_t>& size :
       {std::vector<int64_t>{512}, {512, 500}, {0, 128}, {128, -128}, {128, 128, 3}}) {
    options.image_size = size;
    EXPECT_THROW(plain->configured(options), Error);
  }
}

// One pixel a channel in the last level has no variance.
TEST(EfficientDet, RefusesABatchThatGivesOneValuePerChannel) {
  nn::TrainingOptions options;
  options.image_size = {128, 128};
  EXPECT_NO_THROW(Written("", nn::Mode::kTrain, options, 2));
  try {
    const Written single("", nn::Mode::kTrain, options, 1);
    ADD_FAILURE() << "normalised a single value";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("more than one value per channel"), std::string::npos)
        << error.what();
  }
}

// ---- Numbers ----

constexpr int64_t kBatch = 4, kSize = 128, kMost = 99;
// Ten times effdet's own float32 error against the file, or less (README of the fixtures). In
// evaluation nothing is normalised: logits are sums of large numbers.
constexpr double kLogits = 6e-4, kEvalLosses = 4e-5, kLosses = 1e-5, kGradients = 1e-3,
                 kSteps = 1e-3;

std::vector<float> initial(const Variable& variable) {
  const std::string& name = variable.name;
  const int64_t n = variable.dims.numel();
  const auto around = [&](float middle, float scale) {
    std::vector<float> values = made_up(name, n, scale);
    for (float& value : values) value += middle;
    return values;
  };
  if (name.ends_with("edge_weights")) return around(0.5f, 0.7f);
  if (name.find("bn") != std::string::npos)
    return around(name.ends_with("weight") ? 1.0f : 0.0f, 0.25f);
  if (name.ends_with("bias"))
    return around(name == "class_net.predict.conv_pw.bias" ? -4.5f : 0.0f, 0.125f);
  const double he = std::sqrt(6.0 / static_cast<double>(n / variable.dims[0]));
  const bool predicts = name.find("predict.conv_pw") != std::string::npos;
  return made_up(name, n, static_cast<float>(predicts ? he / 16 : he));
}

// Images and their objects, as the script has them.
struct Objects {
  std::vector<float> image = made_up("input.image", kBatch* kSize* kSize * 3, 2);
  std::vector<float> boxes = std::vector<float>(kBatch * kMost * 4);
  std::vector<int32_t> classes = std::vector<int32_t>(kBatch * kMost, -1), count{3, 1, 0, 2};

  Objects() {
    const std::vector<std::vector<std::array<float, 5>>> all{
        {{44.25f, 3.5f, 124.25f, 78.5f, 0},
         {95.25f, 89.5f, 108.25f, 125.5f, 17},
         {15.75f, 69.75f, 70.75f, 81.75f, 89}},
        {{32, 20, 100, 105, 2}},
        {},
        {{5, 3, 90, 80, 43}, {7, 9, 88, 84, 60}}};
    for (size_t n = 0; n < all.size(); ++n) {
      for (size_t i = 0; i < all[n].size(); ++i) {
        std::copy_n(all[n][i].begin(), 4, boxes.begin() + static_cast<int64_t>(n * kMost + i) * 4);
        classes[n * kMost + i] = static_cast<int32_t>(all[n][i][4]);
      }
    }
  }
  std::vector<HostTensor> tensors() const {
    return {{DType::kF32, {kBatch, kSize, kSize, 3}, image.data()},
            {DType::kF32, {kBatch, kMost, 4}, boxes.data()},
            {DType::kI32, {kBatch, kMost}, classes.data()},
            {DType::kI32, {kBatch}, count.data()}};
  }
};

class EfficientDetNumbers : public testing::Test {
 protected:
  EfficientDetNumbers()
      : instance_(std::make_shared<ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model(kName, "")),
            std::shared_ptr<Backend>(make_backend_under_test(2)))) {
    for (const Variable& variable : instance_->variables().all()) {
      if (variable.role == Role::kState) continue;
      const SegmentTensor tensor = instance_->segments().tensor(variable.name, variable.role);
      std::vector<float> values(static_cast<size_t>(variable.dims.numel()),
                                variable.name.ends_with("running_var") ? 1.0f : 0.0f);
      if (variable.role == Role::kValue) values = initial(variable);
      instance_->backend()->write(tensor.data, values.data(), tensor.bytes());
    }
    instance_->mark_initialized();
  }

  std::vector<float> read(const std::string& name, Role role) const {
    const SegmentTensor tensor = instance_->segments().tensor(name, role);
    std::vector<float> values(tensor.bytes() / 4);
    instance_->backend()->read(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  // The norm, and where it is known the sum, of a tensor of the file.
  void expect_near(const std::string& kind, const std::string& name, Role role, double tolerance) {
    double sum = 0, squares = 0;
    const std::vector<float> values = read(name, role);
    for (const float value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double norm = expected_.at(cat(kind, ".norm.", name));
    // Biases in front of a norm have no gradient; what is left of rounding is measured by all.
    const double scale = role == Role::kGradient ? norm + 1e-4 * all_gradients() : norm;
    EXPECT_NEAR(std::sqrt(squares), norm, tolerance * scale) << kind << " " << name;
    const auto known = expected_.find(cat(kind, ".sum.", name));
    if (known == expected_.end()) return;
    const double terms = std::sqrt(static_cast<double>(values.size()));
    EXPECT_NEAR(sum, known->second, tolerance * scale * terms) << kind << " " << name;
  }
  double all_gradients() const {
    double squares = 0;
    for (const auto& [name, value] : expected_)
      if (name.starts_with("gradient.norm.")) squares += value * value;
    return std::sqrt(squares);
  }
  void expect_scalar(Trainer& trainer, const std::string& name, int step, double tolerance) {
    const double expected = expected_.at(cat(name, ".", step));
    EXPECT_NEAR(trainer.scalar(name), expected, tolerance * expected) << name << " " << step;
  }

  std::shared_ptr<ModelInstance> instance_;
  Objects objects_;
  std::map<std::string, double> expected_ = results_of("efficientdet_d0.tsv");
};

const char* const kTraining = R"({"image_size": [128, 128], "optimizer": {"name": "sgd",
    "learning_rate": 0.02, "momentum": 0.9, "momentum_convention": "sutskever",
    "weight_decay": 4e-3, "decay_in_loss": true, "clip_each_norm": 0.5, "clip_norm": 1.5,
    "group": [{"match": ["*.bias", "*bn*", "*edge_weights"], "weight_decay": 0}],
    "ema_decay": 0.999, "ema_warmup": true, "ema_statistics": true}})";

TEST_F(EfficientDetNumbers, EvaluatesAsEffdetDoes) {
  Trainer trainer(instance_, config_of(kTraining, kBatch));
  const EvalOutputs& found = trainer.eval(objects_.tensors(), false);
  for (const char* name : {"class_loss", "box_loss"}) {
    const double expected = expected_.at(cat("eval.", name));
    EXPECT_NEAR(find_output(found, name).value / kBatch, expected, kEvalLosses * expected) << name;
    EXPECT_EQ(find_output(found, name).weight, kBatch);
  }
  for (const char* kind : {"class_logits", "box_codes"}) {
    for (int level = 3; level <= 7; ++level) {
      const std::string output = cat(kind, ".", level);
      double largest = 0;
      for (const auto& [name, value] : expected_)
        if (name.starts_with(output + ".")) largest = std::max(largest, std::abs(value));
      const std::vector<float> values = read_output(trainer.eval_program(), output);
      for (const auto& [name, value] : expected_) {
        if (!name.starts_with(output + ".")) continue;
        const auto place = static_cast<size_t>(std::stoull(name.substr(output.size() + 1)));
        EXPECT_NEAR(static_cast<double>(values.at(place)), value, kLogits * largest) << name;
      }
      const double norm = expected_.at(cat("norm.", output));
      double squares = 0;
      for (const float value : values)
        squares += static_cast<double>(value) * static_cast<double>(value);
      EXPECT_NEAR(std::sqrt(squares), norm, kLogits * norm) << output;
    }
  }
}

TEST_F(EfficientDetNumbers, TrainsAsEffdetDoes) {
  Trainer trainer(instance_, config_of(kTraining, kBatch));
  trainer.backward(objects_.tensors());
  expect_scalar(trainer, "class_loss", 1, kLosses);
  expect_scalar(trainer, "box_loss", 1, kLosses);
  for (const Variable& variable : instance_->variables().all())
    if (variable.role == Role::kValue)
      expect_near("gradient", variable.name, Role::kGradient, kGradients);
}

// The mean of an image comes from the normalisation before it, in every block.
TEST_F(EfficientDetNumbers, JoinsEverySqueeze) {
  Trainer trainer(instance_, config_of(kTraining, kBatch));
  int forward = 0, backward = 0;
  for (const Node& node : trainer.step_program().graph().nodes()) {
    forward += std::holds_alternative<SqueezedBatchNorm>(node.op);
    backward += std::holds_alternative<SqueezedBatchNormGrad>(node.op);
    EXPECT_FALSE(std::holds_alternative<AvgPoolGrad>(node.op)) << node.scope;
  }
  EXPECT_EQ(forward, 16);
  EXPECT_EQ(backward, 16);
}

// Batch norms of four numbers a channel, as in the last level, magnify what bf16 rounds.
TEST_F(EfficientDetNumbers, LosesLittleInBfloat16) {
  TrainerConfig config = config_of(kTraining, kBatch);
  config.precision = "amp-bf16";
  Trainer trainer(instance_, config);
  trainer.backward(objects_.tensors());
  const auto expected = [&](const char* name) { return expected_.at(cat(name, ".1")); };
  EXPECT_NEAR(trainer.scalar("class_loss"), expected("class_loss"), 0.01 * expected("class_loss"));
  EXPECT_NEAR(trainer.scalar("box_loss"), expected("box_loss"), 0.05 * expected("box_loss"));
}

// The best score of each image by what the network says in evaluation, where nothing is folded.
std::array<double, 2> best_scores(const std::shared_ptr<ModelInstance>& instance,
                                  const std::vector<float>& image) {
  const std::string config =
      R"({"image_size": [128, 256], "optimizer": {"name": "sgd", "learning_rate": 0.01}})";
  Trainer trainer(instance, config_of(config, 2));
  const std::vector<float> boxes(2 * kMost * 4);
  const std::vector<int32_t> classes(2 * kMost, -1), count{0, 0};
  const std::vector<HostTensor> batch{{DType::kF32, {2, 128, 256, 3}, image.data()},
                                      {DType::kF32, {2, kMost, 4}, boxes.data()},
                                      {DType::kI32, {2, kMost}, classes.data()},
                                      {DType::kI32, {2}, count.data()}};
  trainer.eval(batch, false);
  std::array<double, 2> best{-1e9, -1e9};
  for (int level = 3; level <= 7; ++level) {
    const auto logits = read_output(trainer.eval_program(), cat("class_logits.", level));
    for (size_t i = 0; i < logits.size(); ++i) {
      double& of_image = best[i * 2 / logits.size()];
      of_image = std::max(of_image, static_cast<double>(logits[i]));
    }
  }
  for (double& value : best) value = 1 / (1 + std::exp(-value));
  return best;
}

// At first every anchor is of any class with a probability of about 0.01.
TEST(EfficientDet, PredictsTheBestHundred) {
  const auto instance =
      std::make_shared<ModelInstance>(std::shared_ptr<nn::Model>(models::create_model(kName, "")),
                                      std::shared_ptr<Backend>(make_backend_under_test(2)));
  instance->ensure_initialized(5);
  const std::vector<float> image = made_up("image", 2 * 128 * 256 * 3);
  const std::vector<HostTensor> images{{DType::kF32, {2, 128, 256, 3}, image.data()}};
  const std::array<double, 2> best = best_scores(instance, image);
  for (const char* suppression : {"", "soft", "hard"}) {
    PredictorOptions options;
    options.max_batch = 2;
    options.image_size = {128, 256};
    options.suppression = suppression;
    const Predictor predictor(*instance, options);
    PredictorSlot slot(predictor);
    Program& program = slot.run(images);
    EXPECT_EQ(program.output("boxes").type, (ValueType{DType::kF32, {2, 100, 4}}));
    EXPECT_EQ(program.output("classes").type, (ValueType{DType::kI32, {2, 100}}));
    const std::vector<float> scores = read_output(program, "scores");
    const bool is_hard = suppression == std::string("hard");  // nothing scores above 0.4
    for (size_t i = 0; i < scores.size(); ++i) {
      const double most = is_hard        ? 0.0
                          : i % 100 == 0 ? best[i / 100] * (1 + 1e-4)
                                         : static_cast<double>(scores[i - 1]);
      EXPECT_LE(scores[i], most) << suppression << " " << i;
      const double least = i % 100 == 0 ? best[i / 100] * (1 - 1e-4) : 0.001;
      EXPECT_TRUE(is_hard || scores[i] > least) << suppression << " " << i;
    }
  }
}

TEST_F(EfficientDetNumbers, StepsAsPublished) {
  Trainer trainer(instance_, config_of(kTraining, kBatch));
  int step = 0;
  for (const double rate : {0.02, 0.05, 0.01}) {
    trainer.set("learning_rate", rate);
    trainer.step(objects_.tensors());
    ++step;
    for (const char* name : {"class_loss", "box_loss", "decay_loss", "grad_norm"})
      expect_scalar(trainer, name, step, kSteps);
    for (const Variable& variable : instance_->variables().all())
      if (step == 1 && variable.role == Role::kStatistic)
        expect_near("first", variable.name, variable.role, kSteps);
  }
  for (const Variable& variable : instance_->variables().all()) {
    if (variable.role != Role::kValue && variable.role != Role::kStatistic) continue;
    expect_near("last", variable.name, variable.role, kSteps);
    expect_near("average", variable.name, average_of(variable.role), kSteps);
  }
}

}  // namespace
}  // namespace assay::test
