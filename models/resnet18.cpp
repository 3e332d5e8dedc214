#include "models/image_config.h"
#include "models/model_config.pb.h"
#include "models/models.h"
#include "sdk/base/proto_json.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

ResNetConfig with_defaults(ResNetConfig config) {
  if (config.image_size() == 0) set_image(config, {32, 32, 3});
  if (!config.has_classes()) config.set_classes(10);
  if (!config.has_width()) config.set_width(64);
  if (!config.has_stem()) config.set_stem("cifar");
  if (!config.has_zero_last_gamma()) config.set_zero_last_gamma(false);
  return config;
}

class ResNet18 : public nn::ImageNetwork {
 public:
  explicit ResNet18(const ResNetConfig& config) : config_(config) {
    check_classifier("resnet18", config.image(), config.classes());
    expect_range({"resnet18", "width"}, config_.width(), 1, 4096);
    expect_one_of({"resnet18", "stem"}, config_.stem(), {"cifar", "imagenet"});
  }

  std::string architecture() const override { return "resnet18"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image()); }
  int64_t classes() const override { return config_.classes(); }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    x = stem(b, x);
    for (int stage = 0; stage < 4; ++stage) {
      const auto scope = b.scope(cat("layer", stage + 1));
      const int64_t channels = config_.width() << stage;
      x = basic_block(b, "0", x, channels, stage == 0 ? 1 : 2);
      x = basic_block(b, "1", x, channels, 1);
    }
    x = nn::global_average_pool(b, x);
    return nn::linear(b, "fc", x, config_.classes());
  }

 private:
  static ValueId relu(nn::Builder& b, ValueId x) {
    return nn::activation(b, ActivationKind::kRelu, x);
  }

  ValueId stem(nn::Builder& b, ValueId x) const {
    const bool cifar = config_.stem() == "cifar";
    const int64_t kernel = cifar ? 3 : 7;
    const int64_t stride = cifar ? 1 : 2;
    x = nn::conv2d(b, "conv1", x,
                   {.channels = config_.width(),
                    .kernel = {kernel, kernel},
                    .stride = {stride, stride},
                    .padding = {kernel / 2, kernel / 2},
                    .bias = false});
    x = relu(b, nn::batch_norm(b, "bn1", x));
    return cifar ? x : nn::max_pool(b, x, 3, 2, 1);
  }

  ValueId basic_block(nn::Builder& b, std::string_view name, ValueId x, int64_t channels,
                      int64_t stride) const {
    const auto scope = b.scope(name);
    ValueId shortcut = x;
    ValueId y = nn::conv2d(
        b, "conv1", x,
        {.channels = channels, .stride = {stride, stride}, .padding = {1, 1}, .bias = false});
    y = relu(b, nn::batch_norm(b, "bn1", y));
    y = nn::conv2d(b, "conv2", y, {.channels = channels, .padding = {1, 1}, .bias = false});
    y = nn::batch_norm(b, "bn2", y, {.gamma = config_.zero_last_gamma() ? 0.0 : 1.0});
    if (stride != 1 || b.dims(x)[3] != channels) {
      const auto inner = b.scope("downsample");
      shortcut = nn::conv2d(
          b, "0", x,
          {.channels = channels, .kernel = {1, 1}, .stride = {stride, stride}, .bias = false});
      shortcut = nn::batch_norm(b, "1", shortcut);
    }
    return relu(b, b.graph().emit1(Add{}, {y, shortcut}));
  }

  ResNetConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_resnet18(std::string_view config_json) {
  ResNetConfig config;
  parse_json(config_json, config, "resnet18 configuration", {"image"});
  return std::make_unique<nn::ImageClassifier>(std::make_shared<ResNet18>(with_defaults(config)));
}

}  // namespace assay::models
