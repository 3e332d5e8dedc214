// EfficientDet-D0 (arXiv:1911.09070): EfficientNet-B0, three BiFPN cells over five levels, and two
// heads shared by them. As published for TensorFlow 2 by NVIDIA: 91 classes, and an image that the
// data set has normalised is normalised once more. Names of parameters: effdet's.
#include <algorithm>
#include <array>

#include "models/efficientnet_b0.h"
#include "models/models.h"
#include "sdk/base/config.h"
#include "sdk/base/expect.h"
#include "sdk/graph/elementwise.h"
#include "sdk/nn/detector.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

using nn::Mode;

constexpr int kFirstLevel = 3, kLastLevel = 7;  // level l has a cell for 2^l x 2^l pixels
constexpr size_t kLevels = kLastLevel - kFirstLevel + 1;
constexpr int64_t kMultiple = int64_t{1} << kLastLevel;  // of which image sizes are multiples
constexpr int64_t kImage = 512;                          // rows and columns if nothing is said
constexpr std::array<float, 3> kMean{0.485f, 0.456f, 0.406f}, kStddev{0.229f, 0.224f, 0.225f};
constexpr float kFusionEpsilon = 1e-4f;
// Of classes at first: the probability that an anchor is of a class is 0.01.
constexpr double kClassBias = -4.59511985013459;

using Levels = std::vector<ValueId>;

// A node of a BiFPN cell: what it joins, by number. 0 to 4 are the levels as the cell gets them,
// nodes count on from there.
struct FusionNode {
  int level;
  std::array<int, 3> inputs;
  size_t count;
};
constexpr std::array kNodes{
    FusionNode{6, {3, 4}, 2},     FusionNode{5, {2, 5}, 2},    FusionNode{4, {1, 6}, 2},
    FusionNode{3, {0, 7}, 2},     FusionNode{4, {1, 7, 8}, 3}, FusionNode{5, {2, 6, 9}, 3},
    FusionNode{6, {3, 5, 10}, 3}, FusionNode{7, {4, 11}, 2},
};
static_assert(kNodes.size() >= kLevels);

struct EfficientDetConfig {
  int64_t classes = 91;
  int64_t width = 64;
  int64_t cells = 3;
  int64_t repeats = 3;
  double norm_momentum = 0.99;

  void fields(ConfigFields& f) {
    f("classes", classes, "channels of an anchor; COCO's numbers go to 90").in({1, 10000, true});
    f("width", width, "channels of the BiFPN and the heads").in({1, 1024, true});
    f("cells", cells, "of the BiFPN").in({1, 16, true});
    f("repeats", repeats, "convolutions of a head before the one that predicts").in({1, 16, true});
    f("norm_momentum", norm_momentum, "what running statistics keep of themselves at a step")
        .in({0, 1});
  }
};

PointwiseOperand x(int i) { return PointwiseOperand::input(i); }

// The second normalisation.
ValueId normalised(nn::Builder& b, ValueId image) {
  Graph& g = b.graph();
  const auto channels = [&](const std::array<float, 3>& values) {
    Levels each;
    for (const float value : values) each.push_back(g.emit1(Fill{{1}, value}, {}));
    return g.emit(Concat{0}, each)[0];
  };
  PointwiseCode code(PointwiseFn::kSub, {x(0), x(1)});
  code.append(PointwiseFn::kDiv, {PointwiseOperand::step(0), x(2)});
  return g.emit1(Pointwise{code, {}}, {image, channels(kMean), channels(kStddev)});
}

// swish of the images' mean by trained weights; those of half the size are repeated.
ValueId fused(nn::Builder& b, const Levels& images) {
  Levels inputs{b.parameter("edge_weights", {static_cast<int64_t>(images.size())}, nn::constant(1),
                            VariableKind::kScalar)};
  inputs.insert(inputs.end(), images.begin(), images.end());
  return b.graph().emit(WeightedFusion{kFusionEpsilon, ActivationKind::kSwish}, inputs)[0];
}

class EfficientDet : public nn::Model {
 public:
  EfficientDet(const EfficientDetConfig& config, const nn::TrainingOptions& options)
      : config_(config), options_(options) {
    std::vector<int64_t>& size = options_.image_size;
    if (size.empty()) size = {kImage, kImage};
    expect(size.size() == 2, {"configuration", "image_size"}, cat(size.size(), " numbers"),
           "[rows, columns]");
    for (const int64_t side : size)
      expect(side > 0 && side % kMultiple == 0, {"configuration", "image_size"}, side,
             "multiples of ", kMultiple, ": the last level has a cell for so many pixels");
  }

  std::string architecture() const override { return "efficientdet_d0"; }
  std::string config_json() const override { return to_json(config_); }

  std::vector<nn::InputSpec> inputs(Mode mode) const override {
    std::vector<nn::InputSpec> inputs{
        {.name = "image", .sample = {options_.image_size[0], options_.image_size[1], 3}}};
    nn::add_box_inputs(inputs, mode, config_.classes);
    return inputs;
  }

  nn::Outputs forward(nn::Builder& b) const override {
    const Levels features = pyramid(b, normalised(b, b.input(inputs(b.mode())[0])));
    const nn::Detector detector{
        .rows = options_.image_size[0],
        .columns = options_.image_size[1],
        .first_level = kFirstLevel,
        .classes = config_.classes,
        .suppression = options_.suppression,
        .class_logits = head(b, "class_net", features, config_.classes, kClassBias),
        .box_codes = head(b, "box_net", features, 4, 0)};
    return nn::detector_outputs(b, detector);
  }

  std::shared_ptr<const nn::Model> configured(const nn::TrainingOptions& options) const override {
    nn::TrainingOptions others = options;
    others.image_size.clear();
    others.suppression.clear();
    if (others != nn::TrainingOptions{}) return Model::configured(others);
    return std::make_shared<EfficientDet>(config_, options);
  }

 private:
  // Levels 3 to 7 as the heads see them.
  Levels pyramid(nn::Builder& b, ValueId image) const {
    Levels levels;
    {
      const auto scope = b.scope("backbone");
      const auto features = efficientnet_b0_features(b, image, config_.norm_momentum);
      levels.assign(features.begin(), features.end());
    }
    const auto scope = b.scope("fpn");
    levels.push_back(nn::max_pool_same(b, narrowed(b, "resample.3", levels.back()), 3, 2));
    levels.push_back(nn::max_pool_same(b, levels.back(), 3, 2));
    for (int64_t i = 0; i < config_.cells; ++i) levels = cell(b, cat("cell.", i), levels);
    return levels;
  }

  ValueId norm(nn::Builder& b, std::string_view name, ValueId x) const {
    return efficient_batch_norm(b, name, x, config_.norm_momentum);
  }

  // With the width of the BiFPN.
  ValueId narrowed(nn::Builder& b, std::string_view name, ValueId from) const {
    if (b.dims(from).back() == config_.width) return from;
    const auto scope = b.scope(cat(name, ".conv"));
    from = nn::conv2d(
        b, "conv", from,
        {.channels = config_.width, .kernel = {1, 1}, .init = nn::glorot_uniform, .bias_init = 0});
    return norm(b, "bn", from);
  }

  Levels cell(nn::Builder& b, std::string_view name, Levels values) const {
    const auto scope = b.scope(name);
    for (size_t i = 0; i < kNodes.size(); ++i) {
      const auto node = b.scope(cat("fnode.", i));
      const ValueId joined = combined(b, kNodes[i], values);
      const auto behind = b.scope("after_combine");
      values.push_back(
          norm(b, "conv.bn", nn::separable_conv2d(b, "conv", joined, {.channels = config_.width})));
    }
    values.erase(values.begin(), values.end() - kLevels);
    return values;
  }

  // Each input has a convolution of its own where it has another width.
  ValueId combined(nn::Builder& b, const FusionNode& node, const Levels& values) const {
    const auto scope = b.scope("combine");
    Levels images;
    const int64_t rows = options_.image_size[0] >> node.level;
    for (size_t i = 0; i < node.count; ++i) {
      const int from = node.inputs[i];
      ValueId image = narrowed(b, cat("resample.", from), values[static_cast<size_t>(from)]);
      if (b.dims(image)[1] > rows) image = nn::max_pool_same(b, image, 3, 2);
      images.push_back(image);
    }
    return fused(b, images);
  }

  // [N,h,w,9 numbers] of each level: convolutions are the same on all levels, norms each level's
  // own.
  Levels head(nn::Builder& b, std::string_view name, const Levels& levels, int64_t numbers,
              double bias) const {
    const auto convolved = [&](std::string_view layer, ValueId from, int64_t channels,
                               double layer_bias) {
      const auto scope = b.shared(name);
      return nn::separable_conv2d(b, layer, from,
                                  {.channels = channels,
                                   .depthwise_init = nn::depthwise<nn::lecun_truncated_normal>,
                                   .pointwise_init = nn::lecun_truncated_normal,
                                   .bias = layer_bias});
    };
    Levels outputs;
    for (size_t level = 0; level < levels.size(); ++level) {
      ValueId value = levels[level];
      for (int64_t i = 0; i < config_.repeats; ++i) {
        value = convolved(cat("conv_rep.", i), value, config_.width, 0);
        const auto scope = b.scope(name);
        value = swish(b, norm(b, cat("bn_rep.", i, ".", level, ".bn"), value));
      }
      outputs.push_back(convolved("predict", value, kAnchorsPerCell * numbers, bias));
    }
    return outputs;
  }

  EfficientDetConfig config_;
  nn::TrainingOptions options_;  // with an image_size
};

}  // namespace

std::unique_ptr<nn::Model> create_efficientdet_d0(std::string_view config_json) {
  EfficientDetConfig config;
  parse_json(config_json, config, "efficientdet_d0 configuration");
  check_config("efficientdet_d0", "", config);
  return std::make_unique<EfficientDet>(config, nn::TrainingOptions{});
}

}  // namespace assay::models
