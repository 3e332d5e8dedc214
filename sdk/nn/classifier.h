// Networks that put every sample into one of several classes: their loss and counts, and the model
// around a network that does so with images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sdk/nn/model.h"

namespace assay::nn {

// "label" i32 in [0, classes); -1 in evaluation is padding.
InputSpec label_input(int64_t classes, Mode mode);

// Of logits [N,classes]:
//   training    loss (mean), logits
//   evaluation  loss, top1, top5 (sums over the labelled rows, which are their weight), logits
//   prediction  logits, probabilities
// The labels are the input label_input().
Outputs classifier_outputs(Builder& b, ValueId logits, float label_smoothing = 0);

// The part of an image classifier that differs from one to the next. Immutable.
class ImageNetwork {
 public:
  virtual ~ImageNetwork() = default;
  virtual std::string architecture() const = 0;
  virtual std::string config_json() const = 0;
  virtual Dims image() const = 0;  // [rows, columns, channels]
  virtual int64_t classes() const = 0;
  // image [N, rows, columns, channels] -> [N, classes]
  virtual ValueId logits(Builder& b, ValueId image) const = 0;
};

// A classifier of images as a model. Its inputs are "image" f32 and "label". In training with
// raw_images "image" is u8, and "placement" i32 [4] follows (ImageFromBytes); with mixup
// "mix_weight" is drawn (MixRows, MixTargets).
class ImageClassifier : public Model {
 public:
  // kInvalid, naming the option, for bytes that cannot become this network's images.
  explicit ImageClassifier(std::shared_ptr<const ImageNetwork> network,
                           TrainingOptions options = {});

  std::string architecture() const override { return network_->architecture(); }
  std::string config_json() const override { return network_->config_json(); }
  std::vector<InputSpec> inputs(Mode mode) const override;
  Outputs forward(Builder& b) const override;
  std::shared_ptr<const Model> configured(const TrainingOptions& options) const override;

 private:
  bool is_raw(Mode mode) const { return mode == Mode::kTrain && options_.raw_images.has_value(); }
  bool is_mixed(Mode mode) const { return mode == Mode::kTrain && options_.mixup_alpha > 0; }
  InputSpec image_input(Mode mode) const;
  InputSpec mix_weight_input() const;
  ValueId image(Builder& b) const;
  Outputs mixed_outputs(Builder& b, ValueId logits, ValueId weight) const;

  std::shared_ptr<const ImageNetwork> network_;
  TrainingOptions options_;  // raw_images with one number per channel
};

}  // namespace assay::nn
