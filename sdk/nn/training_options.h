// What a trainer's configuration says about inputs and targets. The trainer hands it on; what it
// means is the model's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sdk/base/pixel_levels.h"

namespace assay::nn {

// Images come as bytes and become numbers on the device.
struct RawImages {
  Normalisation normalisation;
  int64_t channels = 0;  // of the bytes; 0: the image's. Those of the image beyond them are 0
  bool operator==(const RawImages&) const = default;
};

struct TrainingOptions {
  float label_smoothing = 0;  // of the target, moved to all classes alike, in [0, 1)
  // Samples and targets are mixed with those of the batch read backwards, with a weight for each
  // sample from Beta(alpha, alpha); 0: not mixed.
  double mixup_alpha = 0;
  std::optional<RawImages> raw_images;
  // Rows and columns of the images of a model that takes more than one size; empty: its own. They,
  // and what follows, are shapes of a batch; the weights fit all of them.
  std::vector<int64_t> image_size;
  // Of a detector's predictions: "soft" or "hard"; empty: soft.
  std::string suppression;
  // Of models of text: tokens of a sequence with its padding, and places for masked words in it.
  std::optional<int64_t> sequence_length, prediction_slots;
  // Of models of text: room for the tokens of a batch without its padding, in sixteenths of the
  // room with it; 0: padding is computed like tokens.
  int packed_sixteenths = 0;
  bool operator==(const TrainingOptions&) const = default;
};

}  // namespace assay::nn
