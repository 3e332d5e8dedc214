// Mixup (arXiv:1710.09412) as ResNet-50's published recipe does it: one weight per sample, and the
// batch read backwards for partners. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sdk/backend/backend.h"

namespace assay::train {

struct MixupConfig {
  double alpha = 0.2;          // weights are drawn from Beta(alpha, alpha)
  double label_smoothing = 0;  // of the targets, before they are mixed
  uint64_t seed = 0;
  int64_t batch = 0, classes = 0;
  int64_t image_size = 0;  // values of one image; 0 where only weights and targets are wanted
};

class Mixup {
 public:
  // Reserves all memory; that of images from the backend, which outlives this.
  Mixup(const MixupConfig& config, Backend& backend);

  // Draws the weights of batch number `index` (from 0): a function of seed, index and row alone.
  void draw(int64_t index);
  // Draws the weights and mixes a batch with them.
  //   images  [batch, image_size], labels [batch] in [0, classes)
  void mix(int64_t index, const float* images, const int32_t* labels);

  std::span<const float> weights() const { return weights_; }  // [batch]: w
  // [batch, image_size]: w x[n] + (1 - w) x[batch - 1 - n].
  const float* images() const { return static_cast<const float*>(images_->data()); }
  // [batch, classes], mixed alike from (1 - s) onehot(label) + s / classes.
  std::span<const float> targets() const { return targets_; }

 private:
  MixupConfig config_;
  std::vector<float> weights_, targets_;
  std::unique_ptr<Memory> images_;
};

}  // namespace assay::train
