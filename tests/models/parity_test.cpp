// Whole models against an independent implementation (tests/fixtures/models: PyTorch in float64):
// logits, losses, every gradient, batch-norm statistics, three steps of each optimizer.
//
// Bounds are fractions of each tensor's largest element. The fixtures' README gives PyTorch's own
// float32 error against the same files; ours may be four times that, for another order of
// summation. bf16 keeps 8 bits (2^-8 = 0.4 %) per rounding and rounds at each layer: logits may be
// twice as far as PyTorch's own bf16 autocast is from the same files, which the README gives too;
// a loss is one number whose error may cancel, so its bound is twice the worst of all models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/train/predictor.h"
#include "tests/models/bfloat16_gradients.h"
#include "tests/models/loaded.h"

namespace assay::train {
namespace {

using test::config_of;
using test::Fixture;
using test::host;
using test::Loaded;
using test::read_output;
using test::relative_error;

struct ModelCase {
  std::string fixture, architecture, config;
  double logits, gradients;  // bounds, f32
  double bf16_logits;
  bool separate_gradients = false;
  bool smoothed = true;
};

std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.fixture; }

const char* const kCnn =
    R"("image": [12, 12, 1], "conv": [4, 6], "kernel": 5, "hidden": [16], "classes": 10)";
std::string cnn(const std::string& activation, bool batch_norm) {
  return cat("{", kCnn, ", \"activation\": \"", activation, "\", \"batch_norm\": ", batch_norm,
             "}");
}

const char* const kResNet50 = R"({"image": [33, 40, 3], "width": 2, "classes": 10})";

std::vector<float> eval_logits(Trainer& trainer, const std::vector<HostTensor>& batch) {
  trainer.eval(batch);
  return read_output(trainer.eval_program(), "logits");
}

class Parity : public testing::TestWithParam<ModelCase> {
 protected:
  Fixture fixture{"models/" + GetParam().fixture};
  std::vector<HostTensor> batch{host(fixture.at("input.image")), host(fixture.at("input.label"))};
  int64_t batch_size = fixture.at("input.label").dims[0];
};

TEST_P(Parity, ForwardAndEveryGradient) {
  const ModelCase& c = GetParam();
  const Loaded model(c.architecture, c.config, fixture);
  Trainer trainer(model.instance,
                  config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1}})", batch_size));
  EXPECT_LT(relative_error(eval_logits(trainer, batch), fixture.at("eval.initial_logits").f32),
            c.logits);
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("train.loss").f32[0],
              c.logits * fixture.at("train.loss").f32[0]);
  const Fixture gradient_file{"models/" + c.fixture + (c.separate_gradients ? ".grad" : "")};
  const auto gradients = gradient_file.with_prefix("grad.");
  EXPECT_EQ(gradients.size(),
            static_cast<size_t>(std::count_if(
                model.instance->variables().all().begin(), model.instance->variables().all().end(),
                [](const Variable& v) { return v.role == Role::kValue; })));
  for (const auto& [name, tensor] : gradients) {
    EXPECT_LT(relative_error(model.read(name, Role::kGradient), tensor->f32), c.gradients) << name;
  }
  for (const auto& [name, tensor] : fixture.with_prefix("after.")) {
    EXPECT_LT(relative_error(model.read(name, Role::kStatistic), tensor->f32), c.logits) << name;
  }
  EXPECT_LT(relative_error(eval_logits(trainer, batch), fixture.at("eval.logits").f32), c.logits);
}

TEST_P(Parity, LabelSmoothing) {
  const ModelCase& c = GetParam();
  if (!c.smoothed) GTEST_SKIP() << "the fixture of " << c.fixture << " has no smoothed gradients";
  const Loaded model(c.architecture, c.config, fixture);
  Trainer trainer(
      model.instance,
      config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1}, "label_smoothing": 0.1})",
                batch_size));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("train.loss_smoothed").f32[0],
              c.logits * fixture.at("train.loss_smoothed").f32[0]);
  const Fixture gradient_file{"models/" + c.fixture +
                              (c.separate_gradients ? ".grad_smoothed" : "")};
  const auto gradients = gradient_file.with_prefix("grad_smoothed.");
  EXPECT_FALSE(gradients.empty());
  for (const auto& [name, tensor] : gradients) {
    EXPECT_LT(relative_error(model.read(name, Role::kGradient), tensor->f32), c.gradients) << name;
  }
}

// A predictor folds the normalisation into the weights; its answer is that of the unfolded
// evaluation.
TEST_P(Parity, PredictorWithFoldedNormalisation) {
  const ModelCase& c = GetParam();
  const Loaded model(c.architecture, c.config, fixture);
  const Predictor predictor(*model.instance, {});
  PredictorSlot slot(predictor);
  const std::vector<HostTensor> images{batch[0]};
  EXPECT_LT(relative_error(read_output(slot.run(images), "logits"),
                           fixture.at("eval.initial_logits").f32),
            2 * c.logits);
}

TEST_P(Parity, Bf16StaysWithinItsPrecision) {
  const ModelCase& c = GetParam();
  const Loaded model(c.architecture, c.config, fixture);
  Trainer trainer(model.instance, config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1},
                                               "precision": "amp-bf16"})",
                                            batch_size));
  EXPECT_LT(relative_error(eval_logits(trainer, batch), fixture.at("eval.initial_logits").f32),
            c.bf16_logits);
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("train.loss").f32[0], 0.01 * fixture.at("train.loss").f32[0]);
}

TEST_P(Parity, Bf16GradientsAreAsGoodAsPyTorchs) {
  const ModelCase& c = GetParam();
  const Loaded model(c.architecture, c.config, fixture);
  Trainer trainer(model.instance, config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1},
                                               "precision": "amp-bf16"})",
                                            batch_size));
  trainer.backward(batch);
  const Fixture gradient_file{"models/" + c.fixture + (c.separate_gradients ? ".grad" : "")};
  test::expect_gradients_as_good_as_pytorchs(
      c.fixture, gradient_file.with_prefix("grad."),
      [&](const std::string& name) { return model.read(name, Role::kGradient); });
}

INSTANTIATE_TEST_SUITE_P(
    Models, Parity,
    testing::Values(
        ModelCase{"cnn_relu", "cnn", cnn("relu", false), 5e-6, 1.2e-5, 1.3e-2},
        ModelCase{"cnn_elu", "cnn", cnn("elu", false), 5e-6, 1.2e-5, 1.3e-2},
        ModelCase{"cnn_relu_bn", "cnn", cnn("relu", true), 5e-6, 1.2e-5, 1.3e-2},
        ModelCase{"cnn_elu_bn", "cnn", cnn("elu", true), 5e-6, 1.2e-5, 1.3e-2},
        ModelCase{"resnet18_16x16x3", "resnet18", R"({"image": [16, 16, 3], "width": 4})", 5e-6,
                  3.4e-5, 2e-2, true},
        ModelCase{"resnet18_14x14x1", "resnet18", R"({"image": [14, 14, 1], "width": 4})", 5e-6,
                  3.4e-5, 1.8e-2, true, false},
        ModelCase{"resnet50_33x40x3", "resnet50", kResNet50, 6.8e-6, 1.2e-4, 1.2e-2, true, false}),
    [](const auto& param) { return param.param.fixture; });

struct RuleCase {
  std::string name, optimizer;
};
std::ostream& operator<<(std::ostream& out, const RuleCase& c) { return out << c.name; }

class OptimizerParity : public testing::TestWithParam<RuleCase> {};

TEST_P(OptimizerParity, ThreeStepsAtChangingRates) {
  const Fixture start("models/cnn_relu_bn");
  const Fixture rule("models/cnn_relu_bn." + GetParam().name);
  const std::vector<HostTensor> batch{host(start.at("input.image")), host(start.at("input.label"))};
  const Loaded model("cnn", cnn("relu", true), start);
  Trainer trainer(model.instance, config_of(cat("{\"optimizer\": {\"learning_rate\": 1, ",
                                                GetParam().optimizer, "}}"),
                                            batch[1].dims[0]));
  for (int step = 1; step <= 3; ++step) {
    trainer.set("learning_rate", rule.at("rate").f32[step - 1]);
    const StepInfo info = trainer.step(batch);
    const std::string prefix = cat("step", step, ".");
    EXPECT_NEAR(info.loss, rule.at(prefix + "loss").f32[0], 5e-6 * info.loss);
    if (rule.has(prefix + "gradient_norm")) {
      EXPECT_NEAR(info.grad_norm, rule.at(prefix + "gradient_norm").f32[0],
                  1.2e-5 * info.grad_norm);
    }
    for (const Variable& variable : model.instance->variables().all()) {
      if (variable.role == Role::kState) continue;
      EXPECT_LT(relative_error(model.read(variable.name, variable.role),
                               rule.at(prefix + variable.name).f32),
                5e-6)
          << prefix << variable.name;
    }
    for (const auto& [name, tensor] : rule.with_prefix(prefix + "ema.")) {
      EXPECT_LT(relative_error(model.read(name, Role::kEma), tensor->f32), 5e-6)
          << prefix << "ema." << name;
    }
  }
  EXPECT_LT(relative_error(eval_logits(trainer, batch), rule.at("eval.logits").f32), 5e-6);
}

const char* const kAdamConstants = R"("beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3)";

INSTANTIATE_TEST_SUITE_P(
    Rules, OptimizerParity,
    testing::Values(
        RuleCase{"sgd", R"("name": "sgd")"},
        RuleCase{"sgd_decay", R"("name": "sgd", "weight_decay": 5e-3)"},
        RuleCase{"momentum", R"("name": "sgd", "momentum": 0.9)"},
        RuleCase{"momentum_clip", R"("name": "sgd", "momentum": 0.9, "clip_norm": 1)"},
        RuleCase{"momentum_ema", R"("name": "sgd", "momentum": 0.9, "ema_decay": 0.9)"},
        RuleCase{"nesterov", R"("name": "sgd", "momentum": 0.9, "nesterov": true)"},
        RuleCase{"nesterov_decay",
                 R"("name": "sgd", "momentum": 0.9, "nesterov": true, "weight_decay": 5e-3)"},
        RuleCase{"sutskever",
                 R"("name": "sgd", "momentum": 0.9, "momentum_convention": "sutskever")"},
        RuleCase{"sutskever_nesterov_decay", R"("name": "sgd", "momentum": 0.9, "nesterov": true,
                 "momentum_convention": "sutskever", "weight_decay": 5e-3)"},
        RuleCase{"adam", cat(R"("name": "adam", )", kAdamConstants)},
        RuleCase{"adam_decay", cat(R"("name": "adam", "weight_decay": 1e-2, )", kAdamConstants)},
        RuleCase{"adam_tensorflow",
                 cat(R"("name": "adam", "epsilon_form": "tensorflow", )", kAdamConstants)},
        RuleCase{"adamw", cat(R"("name": "adamw", "weight_decay": 1e-1, )", kAdamConstants)},
        RuleCase{"lamb", cat(R"("name": "lamb", "weight_decay": 1e-2, )", kAdamConstants)},
        RuleCase{
            "lamb_groups",
            cat(R"("name": "lamb", "weight_decay": 1e-2, "group": [{"match": ["*.bn.*", "*.bias"],
                 "weight_decay": 0, "no_trust_ratio": true}], )",
                kAdamConstants)}),
    [](const auto& param) { return param.param.name; });

// Three updates of a ResNet, whose variables after each lie in a file of their own.
void expect_three_steps(const std::string& architecture, const std::string& config,
                        const std::string& start_name, const std::string& rule_name,
                        const std::string& trainer_config, double bound) {
  const Fixture start("models/" + start_name);
  const Fixture rule(cat("models/", start_name, ".", rule_name));
  const std::vector<HostTensor> batch{host(start.at("input.image")), host(start.at("input.label"))};
  const Loaded model(architecture, config, start);
  Trainer trainer(model.instance, config_of(trainer_config, batch[1].dims[0]));
  for (int step = 1; step <= 3; ++step) {
    trainer.set("learning_rate", rule.at("rate").f32[step - 1]);
    const StepInfo info = trainer.step(batch);
    const Fixture after(cat("models/", start_name, ".", rule_name, ".step", step));
    const std::string prefix = cat("step", step, ".");
    EXPECT_NEAR(info.loss, after.at(prefix + "loss").f32[0], bound * info.loss) << step;
    for (const Variable& variable : model.instance->variables().all()) {
      if (variable.role == Role::kState) continue;
      EXPECT_LT(relative_error(model.read(variable.name, variable.role),
                               after.at(prefix + variable.name).f32),
                bound)
          << prefix << variable.name;
    }
  }
  EXPECT_LT(relative_error(eval_logits(trainer, batch), rule.at("eval.logits").f32), bound);
}

TEST(OptimizerParity, ResNet18NesterovThreeSteps) {
  expect_three_steps("resnet18", R"({"image": [16, 16, 3], "width": 4})", "resnet18_16x16x3",
                     "nesterov_decay",
                     R"({"optimizer": {"name": "sgd", "learning_rate": 1, "momentum": 0.9,
                                       "nesterov": true, "weight_decay": 5e-4}})",
                     1.6e-5);
}

// The published rule: the rate inside the velocity, everything decayed, smoothed labels.
TEST(OptimizerParity, ResNet50RecipeThreeSteps) {
  expect_three_steps("resnet50", kResNet50, "resnet50_33x40x3", "recipe",
                     R"({"optimizer": {"name": "sgd", "learning_rate": 1, "momentum": 0.875,
                                       "momentum_convention": "sutskever", "weight_decay": 5e-3},
                         "label_smoothing": 0.1})",
                     7.2e-6);
}

}  // namespace
}  // namespace assay::train
