// Networks that label every pixel: what they need beyond layers.h.
#pragma once

#include "sdk/nn/layers.h"
#include "sdk/nn/output.h"

namespace assay::nn {

// The middle rows x columns of images [N,H,W,C]; the smaller half of an odd rest is cut at the top
// and left.
ValueId centre_crop(Builder& b, ValueId x, int64_t rows, int64_t columns);
// Images of equal size as one: channels of a, then of b.
ValueId concat_channels(Builder& builder, ValueId a, ValueId b);

// logits [N,H,W,C]; loss = cross-entropy per pixel + soft DICE. The input called `target`,
// [N,H,W,C] f32, weighs the classes of every pixel.
//   training    loss, cross_entropy, dice_loss (means over the images), logits
//   evaluation  the same as sums over the images whose target is not zero everywhere, which are
//               their weight: 1 - dice_loss / images is the score
//   prediction  logits, probabilities (both [N,H,W,C])
Outputs segmentation_outputs(Builder& b, ValueId logits);

}  // namespace assay::nn
