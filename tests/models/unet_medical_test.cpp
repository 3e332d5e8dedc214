// U-Net: the published geometry and counts, and parity with an independent implementation
// (tests/fixtures/models/make_unet.py, PyTorch in float64).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/models.h"
#include "sdk/base/proto_json.h"
#include "sdk/graph/elementwise.h"
#include "sdk/graph/text.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/fixture.h"
#include "tests/models/bfloat16_gradients.h"

namespace assay::train {
namespace {

using test::Fixture;
using test::FixtureTensor;
using test::relative_error;

constexpr const char* kSmall = R"({"image": [44, 52, 1], "width": 3, "depth": 2, "dropout": 0})";

struct Built {
  explicit Built(const std::string& config, nn::Mode mode = nn::Mode::kTrain) {
    const auto model = models::create_model("unet_medical", config);
    nn::Builder builder(graph, mode, 1, variables, 0);
    head = model->forward(builder);
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Node& node : graph.nodes()) {
      if (const auto* op = std::get_if<T>(&node.op)) found.push_back(*op);
    }
    return found;
  }
  Graph graph;
  VariableTable variables;
  nn::Outputs head;
};

TEST(UnetMedical, HasThePublishedGeometry) {
  const Built unet("");
  EXPECT_EQ(unet.variables.parameter_count(), 34512258);
  std::vector<int64_t> offsets, sides;
  for (const Slice& crop : unet.all<Slice>()) {
    EXPECT_EQ(crop.begin[1], crop.begin[2]);
    offsets.push_back(crop.begin[1]), sides.push_back(crop.dims[1]);
  }
  EXPECT_THAT(offsets, testing::ElementsAre(4, 16, 40, 88));
  EXPECT_THAT(sides, testing::ElementsAre(56, 104, 200, 392));
  EXPECT_EQ(unet.graph.type(unet.head.back().value).dims, (Dims{1, 388, 388, 2}));
}

// Multiply-adds of the convolutions of one image; the bottom is the only place of dropout, and the
// last convolution has no activation.
TEST(UnetMedical, CostsWhatThePublishedNetworkCosts) {
  const Built unet("");
  int64_t products = 0;
  for (const Node& node : unet.graph.nodes()) {
    if (std::holds_alternative<Conv2d>(node.op)) {
      const Dims w = unet.graph.type(node.inputs[1]).dims;
      products += unet.graph.type(node.outputs[0]).dims.numel() * w[1] * w[2] * w[3];
    } else if (std::holds_alternative<Conv2dTranspose>(node.op)) {
      const Dims w = unet.graph.type(node.inputs[1]).dims;
      products += unet.graph.type(node.inputs[0]).dims.numel() * w[1] * w[2] * w[3];
    }
  }
  EXPECT_NEAR(static_cast<double>(products), 157.47e9, 0.005e9);
  ASSERT_EQ(unet.all<Dropout>().size(), 1u);
  EXPECT_EQ(unet.all<Dropout>()[0].rate, 0.5f);
  const auto functions = unet.all<Pointwise>();
  EXPECT_EQ(
      std::count_if(functions.begin(), functions.end(),
                    [](const Pointwise& p) { return activation_of(p) == ActivationKind::kRelu; }),
      22);  // 18 convolutions and 4 transposed ones
  EXPECT_EQ(Built("", nn::Mode::kEval).all<Dropout>().size(), 0u);
  EXPECT_EQ(Built("", nn::Mode::kPredict).all<Dropout>().size(), 0u);
}

TEST(UnetMedical, DrawsGlorotUniformWeightsAndZeroBiases) {
  const Built unet("");
  const auto initial = [&](const char* name) { return unet.variables.find(name)->initializer; };
  EXPECT_NEAR(initial("down1.conv1.weight").a, 0.101274, 1e-6);
  EXPECT_NEAR(initial("output.weight").a, 0.301511, 1e-6);
  EXPECT_NEAR(initial("up4.transpose.weight").a, std::sqrt(6.0 / (9 * (1024 + 512))), 1e-9);
  for (const Variable& variable : unet.variables.all()) {
    const bool bias = variable.name.ends_with(".bias");
    EXPECT_EQ(variable.initializer.kind,
              bias ? Initializer::Kind::kConstant : Initializer::Kind::kUniform)
        << variable.name;
    EXPECT_EQ(variable.initializer.a == 0, bias) << variable.name;
  }
}

TEST(UnetMedical, RefusesSizesThatDoNotFit) {
  const auto refusal = [](const std::string& config) {
    try {
      models::create_model("unet_medical", config);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal(R"({"image": [572, 570, 1]})"), testing::HasSubstr("the next is 572"));
  EXPECT_THAT(refusal(R"({"image": [512, 512, 1]})"), testing::HasSubstr("the next is 524"));
  EXPECT_THAT(refusal(R"({"image": [1, 572, 1]})"), testing::HasSubstr("the next is 188"));
  EXPECT_THAT(refusal(R"({"image": [572, 572]})"), testing::HasSubstr("image is 2 numbers"));
  EXPECT_THAT(refusal(R"({"depth": 9})"), testing::HasSubstr("depth is 9, expected 1 to 6"));
  EXPECT_THAT(refusal(R"({"classes": 1})"), testing::HasSubstr("classes"));
  EXPECT_THAT(refusal(R"({"dropout": 1})"), testing::HasSubstr("dropout"));
}

// A model on the backend under test holding the weights of the fixture.
struct Loaded {
  explicit Loaded(const std::string& config = kSmall)
      : instance(std::make_shared<ModelInstance>(
            std::shared_ptr<nn::Model>(models::create_model("unet_medical", config)),
            std::shared_ptr<Backend>(test::make_backend_under_test(2)))) {
    for (const auto& [name, tensor] : fixture.with_prefix("initial.")) {
      const SegmentTensor target = instance->segments().tensor(name, Role::kValue);
      EXPECT_EQ(target.variable->dims, tensor->dims) << name;
      instance->backend()->write(target.data, tensor->f32.data(), target.bytes());
    }
    instance->mark_initialized();
  }
  std::unique_ptr<Trainer> trainer(const std::string& precision = "fp32") const {
    TrainerConfig config;
    parse_json(R"({"batch_size": 2, "optimizer": {"name": "adam", "learning_rate": 1, "beta1": 0.9,
                   "beta2": 0.999, "epsilon": 1e-3, "epsilon_form": "tensorflow"}})",
               config, "test");
    config.precision = precision;
    return std::make_unique<Trainer>(instance, config);
  }
  std::vector<float> read(const std::string& name, Role role) const {
    const SegmentTensor tensor = instance->segments().tensor(name, role);
    std::vector<float> values(tensor.bytes() / 4);
    instance->backend()->read(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  HostTensor host(const std::string& name) const {
    const FixtureTensor& tensor = fixture.at(name);
    return {DType::kF32, tensor.dims, tensor.f32.data()};
  }

  Fixture fixture{"models/unet_medical"};
  std::shared_ptr<ModelInstance> instance;
  std::vector<HostTensor> batch{host("input.image"), host("input.target")};
};

std::vector<float> read_output(Program& program, const std::string& name) {
  const Program::Port& port = program.output(name);
  std::vector<float> values(static_cast<size_t>(port.type.numel()));
  program.backend().read(values.data(), port.data, port.type.bytes());
  return values;
}

// Four times PyTorch's own float32 error against the fixture (README of the fixtures).
constexpr double kLogits = 1.5e-6, kGradients = 3.8e-6;

TEST(UnetMedicalParity, LogitsLossesAndEveryGradient) {
  const Loaded model;
  const auto trainer = model.trainer();
  const StepInfo info = trainer->backward(model.batch);
  for (const char* name : {"loss", "cross_entropy", "dice_loss"}) {
    const double expected = model.fixture.at(cat("step1.", name)).f32[0];
    EXPECT_NEAR(trainer->scalar(name), expected, kLogits * expected) << name;
  }
  EXPECT_EQ(info.loss, trainer->scalar("loss"));
  size_t gradients = 0;
  for (const Variable& variable : model.instance->variables().all()) {
    if (variable.role != Role::kValue) continue;
    EXPECT_LT(relative_error(model.read(variable.name, Role::kGradient),
                             model.fixture.at("grad." + variable.name).f32),
              kGradients)
        << variable.name;
    ++gradients;
  }
  EXPECT_EQ(gradients, model.fixture.with_prefix("grad.").size());
}

TEST(UnetMedicalParity, ThreeAdamSteps) {
  const Loaded model;
  const auto trainer = model.trainer();
  for (int step = 1; step <= 3; ++step) {
    trainer->set("learning_rate", model.fixture.at("rate").f32[step - 1]);
    const StepInfo info = trainer->step(model.batch);
    const std::string prefix = cat("step", step, ".");
    EXPECT_NEAR(info.loss, model.fixture.at(prefix + "loss").f32[0], kLogits * info.loss);
    for (const auto& [name, expected] : model.fixture.with_prefix(prefix + "after."))
      EXPECT_LT(relative_error(model.read(name, Role::kValue), expected->f32), kGradients)
          << prefix << name;
  }
}

// Evaluation and prediction of the same weights; sums over the images instead of means.
TEST(UnetMedicalParity, EvaluationAndPrediction) {
  const Loaded model;
  const auto trainer = model.trainer();
  const std::vector<float>& logits = model.fixture.at("step1.logits").f32;
  const EvalOutput loss = find_output(trainer->eval(model.batch), "loss");
  EXPECT_EQ(loss.weight, 2);
  EXPECT_NEAR(loss.value, 2 * model.fixture.at("step1.loss").f32[0], 1e-5);
  EXPECT_NEAR(trainer->scalar("dice_loss"), 2 * model.fixture.at("step1.dice_loss").f32[0], 1e-5);
  EXPECT_LT(relative_error(read_output(trainer->eval_program(), "logits"), logits), kLogits);
  PredictorOptions options;
  options.max_batch = 2;
  const Predictor predictor(*model.instance, options);
  PredictorSlot slot(predictor);
  const std::vector<HostTensor> images{model.batch[0]};
  Program& program = slot.run(images);
  EXPECT_LT(relative_error(read_output(program, "logits"), logits), kLogits);
  const std::vector<float> p = read_output(program, "probabilities");
  ASSERT_EQ(p.size(), logits.size());
  for (size_t i = 0; i < p.size(); i += 2) {
    EXPECT_NEAR(p[i], 1 / (1 + std::exp(logits[i + 1] - logits[i])), 1e-5);
    EXPECT_NEAR(p[i] + p[i + 1], 1, 1e-6);
  }
}

// A sample whose target is zero everywhere is the padding of an incomplete batch.
TEST(UnetMedicalParity, PaddingDoesNotCount) {
  const Loaded model;
  const auto trainer = model.trainer();
  trainer->eval(model.batch);
  std::vector<float> target = model.fixture.at("input.target").f32;
  std::fill(target.begin() + static_cast<int64_t>(target.size()) / 2, target.end(), 0.0f);
  std::vector<HostTensor> padded = model.batch;
  padded[1].data = target.data();
  const EvalOutput loss = find_output(trainer->eval(padded), "loss");
  EXPECT_EQ(loss.weight, 1);
  const double dice = trainer->scalar("dice_loss"),
               cross_entropy = trainer->scalar("cross_entropy");
  // The same image twice, halved.
  std::vector<float> image = model.fixture.at("input.image").f32;
  std::copy_n(image.begin(), image.size() / 2,
              image.begin() + static_cast<int64_t>(image.size()) / 2);
  target = model.fixture.at("input.target").f32;
  std::copy_n(target.begin(), target.size() / 2,
              target.begin() + static_cast<int64_t>(target.size()) / 2);
  std::vector<HostTensor> twice = model.batch;
  twice[0].data = image.data(), twice[1].data = target.data();
  EXPECT_EQ(find_output(trainer->eval(twice), "loss").weight, 2);
  EXPECT_NEAR(trainer->scalar("dice_loss"), 2 * dice, 1e-6);
  EXPECT_NEAR(trainer->scalar("cross_entropy"), 2 * cross_entropy, 1e-6);
}

TEST(UnetMedicalParity, Bf16StaysWithinItsPrecision) {
  const Loaded model;
  const auto trainer = model.trainer("amp-bf16");
  trainer->eval(model.batch);
  EXPECT_LT(relative_error(read_output(trainer->eval_program(), "logits"),
                           model.fixture.at("step1.logits").f32),
            0.03);
  const StepInfo info = trainer->backward(model.batch);
  EXPECT_NEAR(info.loss, model.fixture.at("step1.loss").f32[0], 0.02 * info.loss);
}

TEST(UnetMedicalParity, Bf16GradientsAreAsGoodAsPyTorchs) {
  const Loaded model;
  const auto trainer = model.trainer("amp-bf16");
  trainer->backward(model.batch);
  test::expect_gradients_as_good_as_pytorchs(
      "unet_medical", model.fixture.with_prefix("grad."),
      [&](const std::string& name) { return model.read(name, Role::kGradient); });
}

// What the summary of a run may ask for, and what it may not.
TEST(UnetMedicalParity, ScalarsByName) {
  const Loaded model;
  const auto trainer = model.trainer();
  EXPECT_THROW(trainer->scalar("loss"), Error);
  trainer->eval(model.batch);
  try {
    trainer->scalar("logits");
    ADD_FAILURE() << "a tensor passed as a scalar";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.message(), testing::HasSubstr("loss, cross_entropy and dice_loss"));
  }
}

}  // namespace
}  // namespace assay::train
