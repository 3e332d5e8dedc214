// EfficientNet-B0 (arXiv:1905.11946) without its classifier: what a detector sees an image through.
#pragma once

#include <array>

#include "sdk/nn/builder.h"

namespace assay::models {

ValueId swish(nn::Builder& b, ValueId x);
// Batch norms of EfficientNet and EfficientDet: epsilon 1e-3. `momentum` in TensorFlow's
// convention: what running statistics keep of themselves at a step.
ValueId efficient_batch_norm(nn::Builder& b, std::string_view name, ValueId x, double momentum);

// image [N,H,W,3] -> [N,H/8,W/8,40], [N,H/16,W/16,112], [N,H/32,W/32,320], each the output of a
// block as it is, without an activation. Names of parameters: timm's of tf_efficientnet_b0. No
// block is dropped in training.
std::array<ValueId, 3> efficientnet_b0_features(nn::Builder& b, ValueId image,
                                                double norm_momentum);

}  // namespace assay::models
