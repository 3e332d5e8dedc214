// ResNet-18 (He et al., arXiv:1512.03385): four stages of two basic blocks, each stage after the
// first at half the size and twice the channels.
#include "models/image_config.h"
#include "models/models.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

// Residual networks of basic blocks (arXiv:1512.03385), torchvision's names.
struct ResNetConfig {
  std::vector<int64_t> image{32, 32, 3};
  int64_t classes = 10;
  int64_t width = 64;
  std::string stem = "cifar";
  bool zero_last_gamma = false;

  void fields(ConfigFields& f) {
    declare_image(f, image);
    f("classes", classes, "of the classifier").in({2, 1000000, true});
    f("width", width, "channels of the first stage").in({1, 4096, true});
    f("stem", stem, "cifar: 3x3 stride 1; imagenet: 7x7 stride 2 and 3x3 max-pool stride 2")
        .one_of({"cifar", "imagenet"});
    f("zero_last_gamma", zero_last_gamma, "start each block as the identity");
  }
};

class ResNet18 : public nn::ImageNetwork {
 public:
  explicit ResNet18(const ResNetConfig& config) : config_(config) {}

  std::string architecture() const override { return "resnet18"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image); }
  int64_t classes() const override { return config_.classes; }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    x = stem(b, x);
    for (int stage = 0; stage < 4; ++stage) {
      const auto scope = b.scope(cat("layer", stage + 1));
      const int64_t channels = config_.width << stage;
      x = basic_block(b, "0", x, channels, stage == 0 ? 1 : 2);
      x = basic_block(b, "1", x, channels, 1);
    }
    x = nn::global_average_pool(b, x);
    return nn::linear(b, "fc", x, config_.classes);
  }

 private:
  ValueId stem(nn::Builder& b, ValueId x) const {
    const bool cifar = config_.stem == "cifar";
    const int64_t kernel = cifar ? 3 : 7;
    const int64_t stride = cifar ? 1 : 2;
    x = nn::conv2d(b, "conv1", x,
                   {.channels = config_.width,
                    .kernel = {kernel, kernel},
                    .stride = {stride, stride},
                    .padding = {kernel / 2, kernel / 2},
                    .bias = false});
    x = nn::relu(b, nn::batch_norm(b, "bn1", x));
    return cifar ? x : nn::max_pool(b, x, 3, 2, 1);
  }

  ValueId basic_block(nn::Builder& b, std::string_view name, ValueId x, int64_t channels,
                      int64_t stride) const {
    const auto scope = b.scope(name);
    ValueId shortcut = x;
    ValueId y = nn::conv2d(
        b, "conv1", x,
        {.channels = channels, .stride = {stride, stride}, .padding = {1, 1}, .bias = false});
    y = nn::relu(b, nn::batch_norm(b, "bn1", y));
    y = nn::conv2d(b, "conv2", y, {.channels = channels, .padding = {1, 1}, .bias = false});
    y = nn::batch_norm(b, "bn2", y, {.gamma = config_.zero_last_gamma ? 0.0 : 1.0});
    // The shortcut is the identity where shapes allow, else a projection (option B of the paper).
    if (stride != 1 || b.dims(x)[3] != channels) {
      const auto inner = b.scope("downsample");
      shortcut = nn::conv2d(
          b, "0", x,
          {.channels = channels, .kernel = {1, 1}, .stride = {stride, stride}, .bias = false});
      shortcut = nn::batch_norm(b, "1", shortcut);
    }
    return nn::relu(b, add(b.graph(), y, shortcut));
  }

  ResNetConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_resnet18(std::string_view config_json) {
  return std::make_unique<nn::ImageClassifier>(
      std::make_shared<ResNet18>(read_image_config<ResNetConfig>("resnet18", config_json)));
}

}  // namespace assay::models
