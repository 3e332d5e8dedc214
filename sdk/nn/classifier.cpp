// Losses and counts of classifiers, and images on their way in: from bytes, mixed, or as they are.
#include "sdk/nn/classifier.h"

#include <algorithm>

#include "sdk/base/expect.h"
#include "sdk/base/hash.h"
#include "sdk/base/philox_beta.h"

namespace assay::nn {
namespace {

constexpr int64_t kMostChannels = 4;  // of images that come as bytes

Outputs training_outputs(ValueId loss, ValueId logits) {
  return {{std::string(kLoss), loss, Reduction::kMean}, {"logits", logits}};
}

Outputs evaluation_outputs(Builder& b, ValueId logits) {
  Graph& g = b.graph();
  const ValueId labels = b.input(label_input(b.dims(logits)[1], b.mode()));
  const ValueId rows = g.emit1(CountTargets{}, {labels});
  const auto sum = [&](std::string_view name, Op op) {
    return Output{std::string(name), g.emit1(std::move(op), {logits, labels}), Reduction::kMean,
                  rows};
  };
  return {sum(kLoss, SoftmaxCrossEntropy{0, assay::Reduction::kSum}),
          sum("top1", TopKCorrect{1}),
          sum("top5", TopKCorrect{5}),
          {"logits", logits}};
}

// One weight a sample: Philox of (seed, "mixup", index, row).
void draw_mix_weights(double alpha, uint64_t seed, int64_t index, int64_t rows, float* weights) {
  const PhiloxKey key = philox_key(seed, hash_name("mixup"));
  for (int64_t n = 0; n < rows; ++n) {
    PhiloxStream random(key, static_cast<uint64_t>(index), static_cast<uint32_t>(n));
    weights[n] = static_cast<float>(philox_beta(random, alpha));
  }
}

RawImages checked(RawImages raw, const Dims& image) {
  require(image[2] <= kMostChannels, Code::kInvalid,
          "trainer: raw_images is for classifiers of images of 1 to 4 channels");
  if (raw.channels == 0) raw.channels = image[2];
  expect(raw.channels >= 1 && raw.channels <= image[2], {"trainer", "raw_images.channels"},
         raw.channels, "1 to the image's ", image[2]);
  raw.normalisation = per_channel(raw.normalisation, raw.channels, "trainer", "raw_images.");
  return raw;
}

}  // namespace

InputSpec label_input(int64_t classes, Mode mode) {
  InputSpec label{.name = "label",
                  .dtype = DType::kI32,
                  .sample = {},
                  .is_label = true,
                  .range = IndexRange{0, classes}};
  // Rows that fill up the last batch of a data set count nowhere; training has full batches.
  if (mode == Mode::kEval) label.padding = -1;
  return label;
}

Outputs classifier_outputs(Builder& b, ValueId logits, float label_smoothing) {
  Graph& g = b.graph();
  if (b.mode() == Mode::kPredict)
    return {{"logits", logits}, {"probabilities", g.emit1(Softmax{}, {logits})}};
  if (b.mode() == Mode::kEval) return evaluation_outputs(b, logits);
  const ValueId labels = b.input(label_input(b.dims(logits)[1], b.mode()));
  return training_outputs(g.emit1(SoftmaxCrossEntropy{label_smoothing}, {logits, labels}), logits);
}

ImageClassifier::ImageClassifier(std::shared_ptr<const ImageNetwork> network,
                                 TrainingOptions options)
    : network_(std::move(network)), options_(std::move(options)) {
  if (options_.raw_images) options_.raw_images = checked(*options_.raw_images, network_->image());
}

InputSpec ImageClassifier::image_input(Mode mode) const {
  InputSpec image{.name = "image", .sample = network_->image()};
  if (!is_raw(mode)) return image;
  image.dtype = DType::kU8;
  image.sample[2] = options_.raw_images->channels;
  return image;
}

namespace {

InputSpec placement_input() { return {.name = "placement", .dtype = DType::kI32, .sample = {4}}; }

}  // namespace

InputSpec ImageClassifier::mix_weight_input() const {
  return {
      .name = "mix_weight",
      .sample = {},
      .draw = [alpha = options_.mixup_alpha](uint64_t seed, int64_t index, int64_t rows, void* to) {
        draw_mix_weights(alpha, seed, index, rows, static_cast<float*>(to));
      }};
}

std::vector<InputSpec> ImageClassifier::inputs(Mode mode) const {
  std::vector<InputSpec> inputs{image_input(mode)};
  if (mode != Mode::kPredict) inputs.push_back(label_input(network_->classes(), mode));
  if (is_raw(mode)) inputs.push_back(placement_input());
  if (is_mixed(mode)) inputs.push_back(mix_weight_input());
  return inputs;
}

ValueId ImageClassifier::image(Builder& b) const {
  const ValueId image = b.input(image_input(b.mode()));
  if (!is_raw(b.mode())) return image;
  const Normalisation& each = options_.raw_images->normalisation;
  ImageFromBytes op{.channels = network_->image()[2], .scale = each.scale};
  std::ranges::copy(each.mean, op.mean.begin());
  std::ranges::copy(each.stddev, op.stddev.begin());
  return b.graph().emit1(op, {image, b.input(placement_input())});
}

Outputs ImageClassifier::mixed_outputs(Builder& b, ValueId logits, ValueId weight) const {
  Graph& g = b.graph();
  const ValueId labels = b.input(label_input(network_->classes(), b.mode()));
  const ValueId targets =
      g.emit1(MixTargets{network_->classes(), options_.label_smoothing}, {labels, weight});
  return training_outputs(g.emit1(SoftTargetCrossEntropy{}, {logits, targets}), logits);
}

Outputs ImageClassifier::forward(Builder& b) const {
  const ValueId x = image(b);
  if (!is_mixed(b.mode()))
    return classifier_outputs(b, network_->logits(b, x), options_.label_smoothing);
  const ValueId weight = b.input(mix_weight_input());
  // The same weights mix the images here and the targets behind the network.
  const ValueId mixed = b.graph().emit1(MixRows{}, {x, weight});
  return mixed_outputs(b, network_->logits(b, mixed), weight);
}

std::shared_ptr<const Model> ImageClassifier::configured(const TrainingOptions& options) const {
  TrainingOptions others = options;
  others.label_smoothing = 0;
  others.mixup_alpha = 0;
  others.raw_images.reset();
  if (others != TrainingOptions{}) return Model::configured(others);
  return std::make_shared<ImageClassifier>(network_, options);
}

}  // namespace assay::nn
