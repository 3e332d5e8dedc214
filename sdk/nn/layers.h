// Functions that emit the blocks models are made of. Each opens the scope `name` for its
// parameters.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sdk/nn/builder.h"

namespace assay::nn {

// ---- Initial values ----

// He et al. (arXiv:1502.01852), normal with sd sqrt(2 / (K*R*S)): torchvision's for convolutions.
Initializer kaiming_normal_fan_out(const Dims& weight);
// The same with the inputs of one output: sd sqrt(2 / (R*S*C)); weight [K, ...]. MXNet's Xavier
// "in", Gaussian, magnitude 2.
Initializer kaiming_normal_fan_in(const Dims& weight);
// Uniform in +-sqrt(1 / fan_in): PyTorch's default for linear layers and their biases.
Initializer uniform_fan_in(const Dims& weight);
// TensorFlow's variance scaling by the inputs of one output: normal of variance 2 / (R*S*C) (He) or
// 1 / (R*S*C) (LeCun), cut at two standard deviations of the normal that has it after the cut.
Initializer he_truncated_normal(const Dims& weight);
Initializer lecun_truncated_normal(const Dims& weight);
// Glorot & Bengio (2010): uniform in +-sqrt(6 / (fan_in + fan_out)), for weights [K,R,S,C] of
// convolutions and [C,R,S,K] of transposed ones. TensorFlow's default.
Initializer glorot_uniform(const Dims& weight);
// Of the weight [C,R,S,1] of a depthwise convolution as Keras counts its inputs, R*S*C, and
// outputs, R*S.
template <Initializer (*init)(const Dims& weight)>
Initializer depthwise(const Dims& weight) {
  return init({1, weight[1], weight[2], weight[0]});
}
inline Initializer constant(double value) { return {Initializer::Kind::kConstant, value}; }

// ---- Layers ----

struct Conv2dConfig {
  int64_t channels = 0;  // output channels
  std::array<int64_t, 2> kernel{3, 3};
  std::array<int64_t, 2> stride{1, 1};
  std::array<int64_t, 2> padding{0, 0};  // on both sides of rows and columns
  bool same =
      false;  // TensorFlow's SAME instead: ceil(size / stride) results, the odd pixel behind
  int64_t groups = 1;
  bool bias = true;
  Initializer (*init)(const Dims& weight) = kaiming_normal_fan_out;
  // Initial biases; none: as PyTorch draws them, uniform_fan_in.
  std::optional<double> bias_init;
};
// x [N,H,W,C] -> [N,P,Q,channels]. Parameters: weight [K,R,S,C/groups], bias [K].
ValueId conv2d(Builder& b, std::string_view name, ValueId x, const Conv2dConfig& config);

struct Conv2dTransposeConfig {
  int64_t channels = 0;  // output channels
  std::array<int64_t, 2> kernel{3, 3};
  std::array<int64_t, 2> stride{2, 2};
  bool bias = true;
  Initializer (*init)(const Dims& weight) = glorot_uniform;
  double bias_init = 0;
};
// Multiplies rows and columns by the strides, with the padding of the SAME convolution that it is
// the gradient of. x [N,P,Q,C] -> [N,P stride,Q stride,channels]. Parameters: weight
// [C,R,S,channels], bias [channels].
ValueId conv2d_transpose(Builder& b, std::string_view name, ValueId x,
                         const Conv2dTransposeConfig& config);

struct SeparableConv2dConfig {
  int64_t channels = 0;  // output channels
  int64_t kernel = 3;    // rows and columns
  Initializer (*depthwise_init)(const Dims& weight) = depthwise<glorot_uniform>;
  Initializer (*pointwise_init)(const Dims& weight) = glorot_uniform;
  double bias = 0;  // initial
};
// One filter for each channel, SAME, then a mixture of the channels with bias; nothing between.
// Parameters: conv_dw.weight [C,kernel,kernel,1], conv_pw.weight [channels,1,1,C],
// conv_pw.bias [channels].
ValueId separable_conv2d(Builder& b, std::string_view name, ValueId x,
                         const SeparableConv2dConfig& config);

struct BatchNormConfig {
  float epsilon = 1e-5f;
  float momentum = 0.1f;   // weight of the new statistic
  bool unbiased = true;    // running variance with the divisor n - 1
  double gamma = 1;        // initial scale
  double running_var = 1;  // initial variance; matters only to inference before training
};
// x [..., C]. Parameters: weight, bias [C]; statistics: running_mean, running_var [C]. In training
// it normalises by the statistics of this batch (n > 1 values per channel) and asks for their
// running averages.
ValueId batch_norm(Builder& b, std::string_view name, ValueId x,
                   const BatchNormConfig& config = {});

struct LinearConfig {
  bool bias = true;
  Initializer (*init)(const Dims& weight) = uniform_fan_in;
  std::optional<double> bias_init;  // as for conv2d
};
// x [N,C] -> [N,features]. Parameters: weight [features, C], bias [features].
ValueId linear(Builder& b, std::string_view name, ValueId x, int64_t features,
               const LinearConfig& config = {});

// Activations by the names that configurations give them, and one of them.
std::span<const std::string_view> activation_names();
ActivationKind activation_kind(std::string_view name);
ValueId activation(Builder& b, ActivationKind kind, ValueId x);
inline ValueId relu(Builder& b, ValueId x) { return activation(b, ActivationKind::kRelu, x); }
// Identity outside training and at rate 0. The mask depends on the seed, the name and the step.
ValueId dropout(Builder& b, std::string_view name, ValueId x, float rate);
ValueId max_pool(Builder& b, ValueId x, int64_t window, int64_t stride, int64_t padding = 0);
// With TensorFlow's SAME padding.
ValueId max_pool_same(Builder& b, ValueId x, int64_t window, int64_t stride);
// The mean of what lies inside the image.
ValueId average_pool(Builder& b, ValueId x, int64_t window, int64_t stride, int64_t padding = 0);
// [N,H,W,C] -> [N,C]
ValueId global_average_pool(Builder& b, ValueId x);
// [N,...] -> [N, rest], in memory order: H, W, C.
ValueId flatten(Builder& b, ValueId x);

}  // namespace assay::nn
