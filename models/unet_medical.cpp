// U-Net for membranes in electron micrographs, as its published TensorFlow implementation has it:
// no padding in 3x3 convolutions, transposed convolutions of 3x3 with ReLU for upsampling, crops of
// the encoder's outputs beside them, dropout at the bottom only, no normalisation. It differs from
// arXiv:1505.04597 in window and activation of the upsampling and in the dropout.
#include <algorithm>

#include "models/image_config.h"
#include "models/models.h"
#include "sdk/nn/model.h"
#include "sdk/nn/segmentation.h"

namespace assay::models {
namespace {

constexpr std::string_view kName = "unet_medical";

// Convolutions do not pad: an image of 572 pixels gives 388 labels; every side must stay even down
// to the bottom.
struct UnetMedicalConfig {
  std::vector<int64_t> image{572, 572, 1};
  int64_t classes = 2;
  int64_t width = 64;
  int64_t depth = 4;
  double dropout = 0.5;

  void fields(ConfigFields& f) {
    declare_image(f, image);
    f("classes", classes, "of each pixel").in({2, 1024, true});
    f("width", width, "channels of the first level; they double with each").in({1, 1024, true});
    f("depth", depth, "number of poolings").in({1, 6, true});
    f("dropout", dropout, "at the bottom").in({0, 1});
  }
};

// Side of the output for a side of the input; 0 if some level has an odd size or vanishes.
int64_t output_side(int64_t side, int64_t depth) {
  for (int64_t level = 0; level < depth; ++level) {
    side -= 4;
    if (side < 2 || side % 2 != 0) return 0;
    side /= 2;
  }
  side -= 4;
  for (int64_t level = 0; level < depth && side > 0; ++level) side = 2 * side - 4;
  return std::max<int64_t>(side, 0);
}

void check(const UnetMedicalConfig& config) {
  for (const int64_t side : {config.image[0], config.image[1]}) {
    if (output_side(side, config.depth) > 0) continue;
    int64_t next = side;
    while (output_side(next, config.depth) == 0) ++next;
    expect(false, {kName, "image"}, cat(side, " pixels in one direction"),
           "a size that stays even at ", config.depth, " poolings; the next is ", next);
  }
}

class UnetMedical : public nn::Model {
 public:
  explicit UnetMedical(const UnetMedicalConfig& config) : config_(config) { check(config_); }

  std::string architecture() const override { return std::string(kName); }
  std::string config_json() const override { return to_json(config_); }
  std::vector<nn::InputSpec> inputs(nn::Mode mode) const override {
    std::vector<nn::InputSpec> inputs{image()};
    if (mode != nn::Mode::kPredict) {
      inputs.push_back({.name = "target",
                        .sample = {output_side(config_.image[0], config_.depth),
                                   output_side(config_.image[1], config_.depth), config_.classes},
                        .is_label = true});
    }
    return inputs;
  }

  nn::Outputs forward(nn::Builder& b) const override {
    ValueId x = b.input(image());
    std::vector<ValueId> skips;
    for (int64_t level = 0; level < config_.depth; ++level) {
      const auto scope = b.scope(cat("down", level + 1));
      skips.push_back(x = two_convolutions(b, x, channels(level)));
      x = nn::max_pool(b, x, 2, 2);
    }
    x = bottom(b, x);
    for (int64_t level = config_.depth - 1; level >= 0; --level)
      x = up(b, level, x, skips[static_cast<size_t>(level)]);
    const nn::Conv2dConfig pointwise{
        .channels = config_.classes, .kernel = {1, 1}, .init = nn::glorot_uniform, .bias_init = 0};
    return nn::segmentation_outputs(b, nn::conv2d(b, "output", x, pointwise));
  }

 private:
  nn::InputSpec image() const { return {.name = "image", .sample = image_dims(config_.image)}; }
  int64_t channels(int64_t level) const { return config_.width << level; }

  static ValueId two_convolutions(nn::Builder& b, ValueId x, int64_t channels) {
    const nn::Conv2dConfig config{.channels = channels, .init = nn::glorot_uniform, .bias_init = 0};
    x = nn::relu(b, nn::conv2d(b, "conv1", x, config));
    return nn::relu(b, nn::conv2d(b, "conv2", x, config));
  }

  ValueId bottom(nn::Builder& b, ValueId x) const {
    const auto scope = b.scope("bottom");
    x = two_convolutions(b, x, channels(config_.depth));
    return nn::dropout(b, "dropout", x, static_cast<float>(config_.dropout));
  }

  ValueId up(nn::Builder& b, int64_t level, ValueId x, ValueId skip) const {
    const auto scope = b.scope(cat("up", level + 1));
    x = nn::relu(b, nn::conv2d_transpose(b, "transpose", x, {.channels = channels(level)}));
    const ValueId beside = nn::centre_crop(b, skip, b.dims(x)[1], b.dims(x)[2]);
    return two_convolutions(b, nn::concat_channels(b, x, beside), channels(level));
  }

  UnetMedicalConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_unet_medical(std::string_view config_json) {
  return std::make_unique<UnetMedical>(
      read_image_config<UnetMedicalConfig>("unet_medical", config_json));
}

}  // namespace assay::models
