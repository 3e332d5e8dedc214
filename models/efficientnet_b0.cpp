// The seven stages of mobile inverted bottlenecks (MBConv), by the table of the paper.
#include "models/efficientnet_b0.h"

#include <algorithm>

#include "sdk/graph/elementwise.h"
#include "sdk/nn/layers.h"

namespace assay::models {
namespace {

constexpr int64_t kStem = 32;  // channels

// Blocks one after the other; the first has the stride.
struct Stack {
  int64_t kernel, repeats, expansion, stride, channels;
  bool is_feature;
};
constexpr std::array kStacks{
    Stack{3, 1, 1, 1, 16, false}, Stack{3, 2, 6, 2, 24, false}, Stack{5, 2, 6, 2, 40, true},
    Stack{3, 3, 6, 2, 80, false}, Stack{5, 3, 6, 1, 112, true}, Stack{5, 4, 6, 2, 192, false},
    Stack{3, 1, 6, 1, 320, true},
};

ValueId conv(nn::Builder& b, std::string_view name, ValueId x, int64_t channels, int64_t kernel,
             int64_t stride) {
  return nn::conv2d(b, name, x,
                    {.channels = channels,
                     .kernel = {kernel, kernel},
                     .stride = {stride, stride},
                     .same = true,
                     .bias = false,
                     .init = nn::he_truncated_normal});
}

ValueId depthwise_conv(nn::Builder& b, std::string_view name, ValueId x, int64_t kernel,
                       int64_t stride) {
  const int64_t channels = b.dims(x).back();
  return nn::conv2d(b, name, x,
                    {.channels = channels,
                     .kernel = {kernel, kernel},
                     .stride = {stride, stride},
                     .same = true,
                     .groups = channels,
                     .bias = false,
                     .init = nn::depthwise<nn::he_truncated_normal>});
}

// Scales every channel by a number in (0, 1) that two layers make of all channels' means.
ValueId squeeze_and_excite(nn::Builder& b, std::string_view name, ValueId x, int64_t squeezed) {
  const auto scope = b.scope(name);
  const Dims in = b.dims(x);
  const auto dense = [&](std::string_view layer, ValueId from, int64_t channels) {
    return nn::conv2d(
        b, layer, from,
        {.channels = channels, .kernel = {1, 1}, .init = nn::he_truncated_normal, .bias_init = 0});
  };
  ValueId s = b.graph().emit1(Reshape{{in[0], 1, 1, in[3]}}, {nn::global_average_pool(b, x)});
  s = swish(b, dense("conv_reduce", s, squeezed));
  s = nn::activation(b, ActivationKind::kSigmoid, dense("conv_expand", s, in[3]));
  const PointwiseCode product(PointwiseFn::kMul,
                              {PointwiseOperand::input(0), PointwiseOperand::input(1)});
  return b.graph().emit1(Pointwise{product, {}}, {x, s});
}

// MBConv. timm numbers norms and names the last convolution by what comes before them.
ValueId block(nn::Builder& b, std::string_view name, ValueId x, const Stack& stack, int64_t stride,
              double norm_momentum) {
  const auto scope = b.scope(name);
  const auto norm = [&](std::string_view layer, ValueId of) {
    return efficient_batch_norm(b, layer, of, norm_momentum);
  };
  const int64_t inputs = b.dims(x).back();
  const bool expands = stack.expansion != 1;
  ValueId y = x;
  if (expands) {
    y = conv(b, "conv_pw", y, inputs * stack.expansion, 1, 1);
    y = swish(b, norm("bn1", y));
  }
  y = depthwise_conv(b, "conv_dw", y, stack.kernel, stride);
  y = swish(b, norm(expands ? "bn2" : "bn1", y));
  y = squeeze_and_excite(b, "se", y, std::max<int64_t>(1, inputs / 4));
  y = conv(b, expands ? "conv_pwl" : "conv_pw", y, stack.channels, 1, 1);
  y = norm(expands ? "bn3" : "bn2", y);
  return stride == 1 && inputs == stack.channels ? add(b.graph(), y, x) : y;
}

}  // namespace

ValueId swish(nn::Builder& b, ValueId x) { return nn::activation(b, ActivationKind::kSwish, x); }

ValueId efficient_batch_norm(nn::Builder& b, std::string_view name, ValueId x, double momentum) {
  const auto of_new = static_cast<float>(1 - momentum);
  return nn::batch_norm(b, name, x, {.epsilon = 1e-3f, .momentum = of_new});
}

std::array<ValueId, 3> efficientnet_b0_features(nn::Builder& b, ValueId image,
                                                double norm_momentum) {
  std::array<ValueId, 3> features;
  size_t found = 0;
  ValueId x = conv(b, "conv_stem", image, kStem, 3, 2);
  x = swish(b, efficient_batch_norm(b, "bn1", x, norm_momentum));
  const auto scope = b.scope("blocks");
  for (size_t i = 0; i < kStacks.size(); ++i) {
    const Stack& stack = kStacks[i];
    for (int64_t k = 0; k < stack.repeats; ++k)
      x = block(b, cat(i, ".", k), x, stack, k == 0 ? stack.stride : 1, norm_momentum);
    if (stack.is_feature) features[found++] = x;
  }
  return features;
}

}  // namespace assay::models
