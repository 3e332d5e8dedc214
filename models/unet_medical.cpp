// U-Net for membranes in electron micrographs, as its published TensorFlow implementation has it:
// no padding in 3x3 convolutions, transposed convolutions of 3x3 with ReLU for upsampling, crops of
// the encoder's outputs beside them, dropout at the bottom only, no normalisation. It differs from
// arXiv:1505.04597 in window and activation of the upsampling and in the dropout.
#include <algorithm>

#include "models/image_config.h"
#include "models/model_config.pb.h"
#include "models/models.h"
#include "sdk/base/proto_json.h"
#include "sdk/nn/model.h"
#include "sdk/nn/segmentation.h"

namespace assay::models {
namespace {

constexpr std::string_view kName = "unet_medical";

UnetMedicalConfig with_defaults(UnetMedicalConfig config) {
  if (config.image_size() == 0) set_image(config, {572, 572, 1});
  if (!config.has_classes()) config.set_classes(2);
  if (!config.has_width()) config.set_width(64);
  if (!config.has_depth()) config.set_depth(4);
  if (!config.has_dropout()) config.set_dropout(0.5);
  return config;
}

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
  check_image(kName, config.image());
  expect_range({kName, "classes"}, config.classes(), 2, 1024);
  expect_range({kName, "width"}, config.width(), 1, 1024);
  expect_range({kName, "depth"}, config.depth(), 1, 6);
  expect_number({kName, "dropout"}, config.dropout(), {0, 1});
  for (const int64_t side : {config.image(0), config.image(1)}) {
    if (output_side(side, config.depth()) > 0) continue;
    int64_t next = side;
    while (output_side(next, config.depth()) == 0) ++next;
    expect(false, {kName, "image"}, cat(side, " pixels in one direction"),
           "a size that stays even at ", config.depth(), " poolings; the next is ", next);
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
      inputs.push_back(
          {.name = "target",
           .sample = {output_side(config_.image(0), config_.depth()),
                      output_side(config_.image(1), config_.depth()), config_.classes()},
           .is_label = true});
    }
    return inputs;
  }

  nn::Outputs forward(nn::Builder& b) const override {
    ValueId x = b.input(image());
    std::vector<ValueId> skips;
    for (int64_t level = 0; level < config_.depth(); ++level) {
      const auto scope = b.scope(cat("down", level + 1));
      skips.push_back(x = two_convolutions(b, x, channels(level)));
      x = nn::max_pool(b, x, 2, 2);
    }
    x = bottom(b, x);
    for (int64_t level = config_.depth() - 1; level >= 0; --level)
      x = up(b, level, x, skips[static_cast<size_t>(level)]);
    const nn::Conv2dConfig pointwise{.channels = config_.classes(),
                                     .kernel = {1, 1},
                                     .init = nn::glorot_uniform,
                                     .zero_bias = true};
    return nn::segmentation_outputs(b, nn::conv2d(b, "output", x, pointwise));
  }

 private:
  nn::InputSpec image() const { return {.name = "image", .sample = image_dims(config_.image())}; }
  int64_t channels(int64_t level) const { return config_.width() << level; }

  static ValueId relu(nn::Builder& b, ValueId x) {
    return nn::activation(b, ActivationKind::kRelu, x);
  }

  static ValueId two_convolutions(nn::Builder& b, ValueId x, int64_t channels) {
    const nn::Conv2dConfig config{
        .channels = channels, .init = nn::glorot_uniform, .zero_bias = true};
    x = relu(b, nn::conv2d(b, "conv1", x, config));
    return relu(b, nn::conv2d(b, "conv2", x, config));
  }

  ValueId bottom(nn::Builder& b, ValueId x) const {
    const auto scope = b.scope("bottom");
    x = two_convolutions(b, x, channels(config_.depth()));
    return nn::dropout(b, "dropout", x, static_cast<float>(config_.dropout()));
  }

  ValueId up(nn::Builder& b, int64_t level, ValueId x, ValueId skip) const {
    const auto scope = b.scope(cat("up", level + 1));
    x = relu(b, nn::conv2d_transpose_3x3_double(b, "transpose", x, channels(level)));
    const ValueId beside = nn::centre_crop(b, skip, b.dims(x)[1], b.dims(x)[2]);
    return two_convolutions(b, nn::concat_channels(b, x, beside), channels(level));
  }

  UnetMedicalConfig config_;
};

}  // namespace

std::unique_ptr<nn::Model> create_unet_medical(std::string_view config_json) {
  UnetMedicalConfig config;
  parse_json(config_json, config, "unet_medical configuration", {"image"});
  return std::make_unique<UnetMedical>(with_defaults(config));
}

}  // namespace assay::models
