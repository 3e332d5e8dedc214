// ResNet-50 v1.5: four stages of 3, 4, 6 and 3 bottleneck blocks.
#include "models/image_config.h"
#include "models/models.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

constexpr std::array<int, 4> kBlocks{3, 4, 6, 3};
constexpr int64_t kExpansion = 4;  // a block's outputs per channel of its 3x3 convolution

// ResNet-50 v1.5 (arXiv:1512.03385 with the stride on the 3x3 convolution of a block),
// torchvision's names. Weights of convolutions and of the classifier start normal with sd sqrt(2 /
// fan_in), its bias at 0 (MXNet's "Xavier in", magnitude 2).
struct ResNet50Config {
  // With 4 channels (the fourth zero) the stem meets the alignment of tensor cores: 3,136
  // parameters more.
  std::vector<int64_t> image{224, 224, 3};
  int64_t classes = 1000;
  int64_t width = 64;
  bool zero_last_gamma = true;
  bool biased_running_variance = false;

  void fields(ConfigFields& f) {
    declare_image(f, image);
    f("classes", classes, "of the classifier").in({2, 1000000, true});
    f("width", width, "channels of the first stage's 3x3 convolutions").in({1, 4096, true});
    f("zero_last_gamma", zero_last_gamma,
      "the last batch norm of each block starts at scale and running variance 0");
    f("biased_running_variance", biased_running_variance,
      "running variances average the biased one (divisor n), as fused fp16 kernels keep them");
  }
};

class ResNet50 : public nn::ImageNetwork {
 public:
  explicit ResNet50(const ResNet50Config& config) : config_(config) {}

  std::string architecture() const override { return "resnet50"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image); }
  int64_t classes() const override { return config_.classes; }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    x = stem(b, x);
    for (size_t stage = 0; stage < kBlocks.size(); ++stage) {
      const auto scope = b.scope(cat("layer", stage + 1));
      for (int block = 0; block < kBlocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        x = bottleneck(b, cat(block), x, config_.width << stage, stride);
      }
    }
    x = nn::global_average_pool(b, x);
    const nn::LinearConfig classifier{.init = nn::kaiming_normal_fan_in, .bias_init = 0};
    return nn::linear(b, "fc", x, config_.classes, classifier);
  }

 private:
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
        {.unbiased = !config_.biased_running_variance, .gamma = start, .running_var = start});
  }

  ValueId stem(nn::Builder& b, ValueId x) const {
    x = conv(b, "conv1", x, config_.width, 7, 2);
    return nn::max_pool(b, nn::relu(b, norm(b, "bn1", x)), 3, 2, 1);
  }

  // 1x1 to `mid` channels, 3x3 with the stride, 1x1 to 4 * mid, plus the shortcut.
  ValueId bottleneck(nn::Builder& b, std::string_view name, ValueId x, int64_t mid,
                     int64_t stride) const {
    const auto scope = b.scope(name);
    const int64_t outputs = kExpansion * mid;
    ValueId y = nn::relu(b, norm(b, "bn1", conv(b, "conv1", x, mid, 1, 1)));
    y = nn::relu(b, norm(b, "bn2", conv(b, "conv2", y, mid, 3, stride)));
    y = norm(b, "bn3", conv(b, "conv3", y, outputs, 1, 1), config_.zero_last_gamma ? 0 : 1);
    if (b.dims(x)[3] != outputs) {
      const auto inner = b.scope("downsample");
      x = norm(b, "1", conv(b, "0", x, outputs, 1, stride));
    }
    return nn::relu(b, add(b.graph(), y, x));
  }

  ResNet50Config config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_resnet50(std::string_view config_json) {
  return std::make_unique<nn::ImageClassifier>(
      std::make_shared<ResNet50>(read_image_config<ResNet50Config>("resnet50", config_json)));
}

}  // namespace assay::models
