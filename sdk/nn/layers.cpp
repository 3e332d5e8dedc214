// Layers as the nodes they stand for: parameters by name, shapes checked, initial values chosen.
#include "sdk/nn/layers.h"

#include <algorithm>
#include <cmath>

#include "sdk/graph/elementwise.h"

namespace assay::nn {
namespace {

// Inputs of one output of a weight [K, ...].
double fan_in(const Dims& weight) {
  const int64_t inputs = weight.numel() / weight[0];
  return static_cast<double>(inputs);
}

// What cutting a normal at two standard deviations leaves of its standard deviation.
constexpr double kLeftByTheCut = 0.87962566103423978;

Initializer truncated_normal(double variance) {
  return {Initializer::Kind::kTruncatedNormal, std::sqrt(variance) / kLeftByTheCut};
}

// Before and behind `size` elements, by TensorFlow's SAME.
std::array<int64_t, 2> same_padding(int64_t size, int64_t window, int64_t stride) {
  const int64_t results = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>(0, (results - 1) * stride + window - size);
  return {total / 2, total - total / 2};
}

Initializer bias_initializer(std::optional<double> value, const Dims& weight) {
  return value ? constant(*value) : uniform_fan_in(weight);
}

// The padding of images x [N,H,W,C]: at the beginnings, and at the ends.
struct Padding {
  std::array<int64_t, 2> begin, end;
};
Padding same_padding(const Dims& x, std::array<int64_t, 2> window, std::array<int64_t, 2> stride) {
  const auto rows = same_padding(x[1], window[0], stride[0]);
  const auto columns = same_padding(x[2], window[1], stride[1]);
  return {{rows[0], columns[0]}, {rows[1], columns[1]}};
}

}  // namespace

Initializer kaiming_normal_fan_out(const Dims& weight) {
  const auto fan_out = static_cast<double>(weight[0] * weight[1] * weight[2]);
  return {Initializer::Kind::kNormal, std::sqrt(2.0 / fan_out)};
}

Initializer kaiming_normal_fan_in(const Dims& weight) {
  return {Initializer::Kind::kNormal, std::sqrt(2.0 / fan_in(weight))};
}

Initializer uniform_fan_in(const Dims& weight) {
  return {Initializer::Kind::kUniform, std::sqrt(1.0 / fan_in(weight))};
}

Initializer he_truncated_normal(const Dims& weight) { return truncated_normal(2 / fan_in(weight)); }

Initializer lecun_truncated_normal(const Dims& weight) {
  return truncated_normal(1 / fan_in(weight));
}

// fan_in + fan_out = window * (K + C), the same for both layouts of weights.
Initializer glorot_uniform(const Dims& weight) {
  const auto fans = static_cast<double>(weight[1] * weight[2] * (weight[0] + weight[3]));
  return {Initializer::Kind::kUniform, std::sqrt(6.0 / fans)};
}

ValueId conv2d(Builder& b, std::string_view name, ValueId x, const Conv2dConfig& config) {
  const auto scope = b.scope(name);
  const Dims& in = b.dims(x);
  require(in.rank() == 4, Code::kInvalid, b.graph().scope(), ": conv2d needs x [N,H,W,C], got ",
          in);
  const Dims weight{config.channels, config.kernel[0], config.kernel[1], in[3] / config.groups};
  const Padding padding = config.same ? same_padding(in, config.kernel, config.stride)
                                      : Padding{config.padding, config.padding};
  const ConvGeometry geometry{.stride = config.stride,
                              .pad_begin = padding.begin,
                              .pad_end = padding.end,
                              .groups = config.groups};
  const ValueId w = b.parameter("weight", weight, config.init(weight));
  if (!config.bias) return b.graph().emit1(Conv2d{.geometry = geometry}, {x, w});
  const ValueId bias = b.parameter("bias", {config.channels},
                                   bias_initializer(config.bias_init, weight), VariableKind::kBias);
  return b.graph().emit1(Conv2d{.geometry = geometry, .has_bias = true}, {x, w, bias});
}

ValueId conv2d_transpose(Builder& b, std::string_view name, ValueId x,
                         const Conv2dTransposeConfig& config) {
  const auto scope = b.scope(name);
  const Dims in = b.dims(x);
  require(in.rank() == 4, Code::kInvalid, b.graph().scope(),
          ": transposed convolution needs x [N,H,W,C], got ", in);
  const Dims y{in[0], in[1] * config.stride[0], in[2] * config.stride[1], config.channels};
  const Dims weight{in[3], config.kernel[0], config.kernel[1], config.channels};
  const Padding padding = same_padding(y, config.kernel, config.stride);
  const ConvGeometry geometry{
      .stride = config.stride, .pad_begin = padding.begin, .pad_end = padding.end};
  const ValueId w = b.parameter("weight", weight, config.init(weight));
  if (!config.bias)
    return b.graph().emit1(Conv2dTranspose{.geometry = geometry, .y_dims = y}, {x, w});
  const ValueId bias =
      b.parameter("bias", {config.channels}, constant(config.bias_init), VariableKind::kBias);
  return b.graph().emit1(Conv2dTranspose{.geometry = geometry, .y_dims = y, .has_bias = true},
                         {x, w, bias});
}

ValueId separable_conv2d(Builder& b, std::string_view name, ValueId x,
                         const SeparableConv2dConfig& config) {
  const auto scope = b.scope(name);
  const int64_t in = b.dims(x).back();
  x = conv2d(b, "conv_dw", x,
             {.channels = in,
              .kernel = {config.kernel, config.kernel},
              .same = true,
              .groups = in,
              .bias = false,
              .init = config.depthwise_init});
  return conv2d(b, "conv_pw", x,
                {.channels = config.channels,
                 .kernel = {1, 1},
                 .init = config.pointwise_init,
                 .bias_init = config.bias});
}

ValueId batch_norm(Builder& b, std::string_view name, ValueId x, const BatchNormConfig& config) {
  const auto scope = b.scope(name);
  const int64_t channels = b.dims(x).back();
  const auto kind = VariableKind::kBatchNorm;
  const ValueId gamma = b.parameter("weight", {channels}, constant(config.gamma), kind);
  const ValueId beta = b.parameter("bias", {channels}, constant(0), kind);
  const ValueId mean = b.statistic("running_mean", {channels}, constant(0));
  const ValueId var = b.statistic("running_var", {channels}, constant(config.running_var));
  // The statistics are declared in every mode, so that each graph has the same variables.
  if (!b.training())
    return b.graph().emit1(BatchNormInference{.epsilon = config.epsilon},
                           {x, gamma, beta, mean, var});
  const int64_t count = b.dims(x).numel() / channels;
  const auto y = b.graph().emit(BatchNorm{.epsilon = config.epsilon}, {x, gamma, beta});
  // count 0 keeps the biased variance (RunningStatistics).
  b.update_statistics({{.momentum = config.momentum, .count = config.unbiased ? count : 0},
                       y[1],
                       y[2],
                       b.graph().scope()});
  return y[0];
}

ValueId linear(Builder& b, std::string_view name, ValueId x, int64_t features,
               const LinearConfig& config) {
  const auto scope = b.scope(name);
  require(b.dims(x).rank() == 2, Code::kInvalid, b.graph().scope(), ": linear needs x [N,C], got ",
          b.dims(x));
  const Dims weight{features, b.dims(x)[1]};
  const DType dtype = b.graph().type(x).dtype;
  const ValueId w = b.parameter("weight", weight, config.init(weight));
  if (!config.bias) return b.graph().emit1(Matmul{.transpose_b = true, .dtype = dtype}, {x, w});
  const ValueId bias = b.parameter("bias", {features}, bias_initializer(config.bias_init, weight),
                                   VariableKind::kBias);
  return b.graph().emit1(Matmul{.transpose_b = true, .has_bias = true, .dtype = dtype},
                         {x, w, bias});
}

namespace {

constexpr std::array<std::string_view, 7> kActivationNames{"relu", "elu",       "tanh", "sigmoid",
                                                           "gelu", "gelu_tanh", "swish"};

}  // namespace

std::span<const std::string_view> activation_names() { return kActivationNames; }

ActivationKind activation_kind(std::string_view name) {
  constexpr std::array<ActivationKind, kActivationNames.size()> kKinds{
      ActivationKind::kRelu,    ActivationKind::kElu,  ActivationKind::kTanh,
      ActivationKind::kSigmoid, ActivationKind::kGelu, ActivationKind::kGeluTanh,
      ActivationKind::kSwish};
  const auto found = std::ranges::find(kActivationNames, name);
  require(found != kActivationNames.end(), Code::kInvalid, "no activation is called ", name);
  return kKinds[static_cast<size_t>(found - kActivationNames.begin())];
}

ValueId activation(Builder& b, ActivationKind kind, ValueId x) {
  return kind == ActivationKind::kNone ? x : assay::activation(b.graph(), x, kind);
}

ValueId dropout(Builder& b, std::string_view name, ValueId x, float rate) {
  if (!b.training() || rate == 0) return x;
  const ValueId step = b.random_step();
  return b.graph().emit1(Dropout{.rate = rate, .seed = b.seed(), .stream = b.stream(name)},
                         {x, step});
}

ValueId max_pool(Builder& b, ValueId x, int64_t window, int64_t stride, int64_t padding) {
  const PoolGeometry geometry{
      {window, window}, {stride, stride}, {padding, padding}, {padding, padding}};
  return b.graph().emit1(MaxPool{geometry}, {x});
}

ValueId max_pool_same(Builder& b, ValueId x, int64_t window, int64_t stride) {
  const Padding padding = same_padding(b.dims(x), {window, window}, {stride, stride});
  return b.graph().emit1(MaxPool{{{window, window}, {stride, stride}, padding.begin, padding.end}},
                         {x});
}

ValueId average_pool(Builder& b, ValueId x, int64_t window, int64_t stride, int64_t padding) {
  const PoolGeometry geometry{
      {window, window}, {stride, stride}, {padding, padding}, {padding, padding}};
  return b.graph().emit1(AvgPool{geometry}, {x});
}

ValueId global_average_pool(Builder& b, ValueId x) {
  const Dims in = b.dims(x);
  const ValueId y =
      b.graph().emit1(AvgPool{{.window = {in[1], in[2]}, .stride = {in[1], in[2]}}}, {x});
  return b.graph().emit1(Reshape{{in[0], in[3]}}, {y});
}

ValueId flatten(Builder& b, ValueId x) {
  const Dims in = b.dims(x);
  return b.graph().emit1(Reshape{{in[0], in.numel() / in[0]}}, {x});
}

}  // namespace assay::nn
