#include "models/image_config.h"
#include "models/model_config.pb.h"
#include "models/models.h"
#include "sdk/base/proto_json.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

constexpr std::array<int, 4> kBlocks{3, 4, 6, 3};
constexpr int64_t kExpansion = 4;  // a block's outputs per channel of its 3x3 convolution

ResNet50Config with_defaults(ResNet50Config config) {
  if (config.image_size() == 0) set_image(config, {224, 224, 3});
  if (!config.has_classes()) config.set_classes(1000);
  if (!config.has_width()) config.set_width(64);
  if (!config.has_zero_last_gamma()) config.set_zero_last_gamma(true);
  if (!config.has_biased_running_variance()) config.set_biased_running_variance(false);
  return config;
}

class ResNet50 : public nn::ImageNetwork {
 public:
  explicit ResNet50(const ResNet50Config& config) : config_(config) {
    check_classifier("resnet50", config.image(), config.classes());
    expect_range({"resnet50", "width"}, config_.width(), 1, 4096);
  }

  std::string architecture() const override { return "resnet50"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image()); }
  int64_t classes() const override { return config_.classes(); }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    x = stem(b, x);
    for (size_t stage = 0; stage < kBlocks.size(); ++stage) {
      const auto scope = b.scope(cat("layer", stage + 1));
      for (int block = 0; block < kBlocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        x = bottleneck(b, cat(block), x, config_.width() << stage, stride);
      }
    }
    x = nn::global_average_pool(b, x);
    const nn::LinearConfig classifier{.init = nn::kaiming_normal_fan_in, .zero_bias = true};
    return nn::linear(b, "fc", x, config_.classes(), classifier);
  }

 private:
  static ValueId relu(nn::Builder& b, ValueId x) {
    return nn::activation(b, ActivationKind::kRelu, x);
  }

  static ValueId conv(nn::Builder& b, std::string_view name, ValueId x, int64_t channels,
                      int64_t kernel, int64_t stride) {
    return nn::conv2d(b, name, x,
                      {.channels = channels,
                       .kernel = {kernel, kernel},
                       .stride = {stride, stride},
                       .padding = {kernel / 2, kernel / 2},
                       .bias = false,
                       .init = nn::kaiming_normal_fan_in});
  }

  // `start`: initial scale and running variance alike.
  ValueId norm(nn::Builder& b, std::string_view name, ValueId x, double start = 1) const {
    return nn::batch_norm(
        b, name, x,
        {.unbiased = !config_.biased_running_variance(), .gamma = start, .running_var = start});
  }

  ValueId stem(nn::Builder& b, ValueId x) const {
    x = conv(b, "conv1", x, config_.width(), 7, 2);
    return nn::max_pool(b, relu(b, norm(b, "bn1", x)), 3, 2, 1);
  }

  // 1x1 to `mid` channels, 3x3 with the stride, 1x1 to 4 * mid, plus the shortcut.
  ValueId bottleneck(nn::Builder& b, std::string_view name, ValueId x, int64_t mid,
                     int64_t stride) const {
    const auto scope = b.scope(name);
    const int64_t outputs = kExpansion * mid;
    ValueId y = relu(b, norm(b, "bn1", conv(b, "conv1", x, mid, 1, 1)));
    y = relu(b, norm(b, "bn2", conv(b, "conv2", y, mid, 3, stride)));
    y = norm(b, "bn3", conv(b, "conv3", y, outputs, 1, 1), config_.zero_last_gamma() ? 0 : 1);
    if (b.dims(x)[3] != outputs) {
      const auto inner = b.scope("downsample");
      x = norm(b, "1", conv(b, "0", x, outputs, 1, stride));
    }
    return relu(b, b.graph().emit1(Add{}, {y, x}));
  }

  ResNet50Config config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_resnet50(std::string_view config_json) {
  ResNet50Config config;
  parse_json(config_json, config, "resnet50 configuration", {"image"});
  return std::make_unique<nn::ImageClassifier>(std::make_shared<ResNet50>(with_defaults(config)));
}

}  // namespace assay::models
