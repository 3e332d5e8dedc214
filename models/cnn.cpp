// A configurable convolutional classifier, for small images and for trying things out.
#include <algorithm>

#include "models/image_config.h"
#include "models/models.h"
#include "sdk/base/expect.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

// Blocks of convolution, normalisation, activation and max-pooling, then hidden linear layers, then
// a classifier.
struct CnnConfig {
  std::vector<int64_t> image{28, 28, 1};
  int64_t classes = 10;
  std::vector<int64_t> conv{32, 64};
  int64_t kernel = 5;
  bool batch_norm = true;
  std::vector<int64_t> hidden{256};
  double dropout = 0;
  std::string activation = "relu";

  void fields(ConfigFields& f) {
    declare_image(f, image);
    f("classes", classes, "of the classifier").in({2, 1000000, true});
    f("conv", conv, "output channels of each block").in({1, 65536, true}).not_empty();
    f("kernel", kernel, "window of the convolutions, odd, same padding").in({1, 1023, true});
    f("batch_norm", batch_norm, "after convolutions and hidden layers");
    f("hidden", hidden, "sizes of the hidden layers; [0] is none")
        .in({0, 1048576, true})
        .not_empty();
    f("dropout", dropout, "after the hidden layers").in({0, 1});
    f("activation", activation, "of blocks and hidden layers").one_of(nn::activation_names());
  }
};

void check(const CnnConfig& config) {
  expect(config.kernel % 2 == 1, {"cnn", "kernel"}, config.kernel, "an odd number in [1, 1023]");
  expect(config.hidden.size() == 1 || std::ranges::count(config.hidden, 0) == 0, {"cnn", "hidden"},
         0, "sizes in [1, 1048576], or [0] for none");
  const int64_t shrink = int64_t{1} << std::min<size_t>(config.conv.size(), 20);
  const int64_t side = std::min(config.image[0], config.image[1]);
  expect(side >= shrink, {"cnn", "image"}, cat(side, " pixels at its shorter side"), "at least ",
         shrink, ", which ", config.conv.size(), " blocks halve to 1");
}

class Cnn : public nn::ImageNetwork {
 public:
  explicit Cnn(const CnnConfig& config) : config_(config) {
    check(config_);
    activation_ = nn::activation_kind(config_.activation);
  }

  std::string architecture() const override { return "cnn"; }
  std::string config_json() const override { return to_json(config_); }
  Dims image() const override { return image_dims(config_.image); }
  int64_t classes() const override { return config_.classes; }

  ValueId logits(nn::Builder& b, ValueId x) const override {
    for (size_t i = 0; i < config_.conv.size(); ++i) x = conv_block(b, i, x);
    x = nn::flatten(b, x);
    for (size_t i = 0; i < config_.hidden.size(); ++i) {
      if (config_.hidden[i] > 0) x = hidden_layer(b, i, x);
    }
    return nn::linear(b, "output", x, config_.classes);
  }

 private:
  ValueId conv_block(nn::Builder& b, size_t i, ValueId x) const {
    const auto scope = b.scope(cat("block", i + 1));
    const int64_t pad = config_.kernel / 2;
    x = nn::conv2d(b, "conv", x,
                   {.channels = config_.conv[i],
                    .kernel = {config_.kernel, config_.kernel},
                    .padding = {pad, pad},
                    .bias = !config_.batch_norm});
    if (config_.batch_norm) x = nn::batch_norm(b, "bn", x);
    return nn::max_pool(b, nn::activation(b, activation_, x), 2, 2);
  }

  ValueId hidden_layer(nn::Builder& b, size_t i, ValueId x) const {
    const auto scope = b.scope(cat("hidden", i + 1));
    x = nn::linear(b, "linear", x, config_.hidden[i], {.bias = !config_.batch_norm});
    if (config_.batch_norm) x = nn::batch_norm(b, "bn", x);
    return nn::dropout(b, "dropout", nn::activation(b, activation_, x),
                       static_cast<float>(config_.dropout));
  }

  CnnConfig config_;
  ActivationKind activation_ = ActivationKind::kRelu;
};

}  // namespace

std::unique_ptr<nn::Model> create_cnn(std::string_view config_json) {
  return std::make_unique<nn::ImageClassifier>(
      std::make_shared<Cnn>(read_image_config<CnnConfig>("cnn", config_json)));
}

}  // namespace assay::models
