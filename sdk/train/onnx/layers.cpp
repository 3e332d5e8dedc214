// Convolutions, products, pooling and normalisations.
#include <numeric>

#include "sdk/train/onnx/converter.h"

namespace assay::onnx {
namespace {

using Pair = std::array<int64_t, 2>;

std::vector<int64_t> list(const Pair& pair) { return {pair[0], pair[1]}; }
std::vector<int64_t> pads(const Pair& begin, const Pair& end) {
  return {begin[0], begin[1], end[0], end[1]};
}

Attributes window(const ConvGeometry& geometry, const Dims& weight) {
  return {{"kernel_shape", std::vector<int64_t>{weight[1], weight[2]}},
          {"strides", list(geometry.stride)},
          {"pads", pads(geometry.pad_begin, geometry.pad_end)},
          {"dilations", list(geometry.dilation)},
          {"group", geometry.groups}};
}

Attributes window(const PoolGeometry& geometry) {
  return {{"kernel_shape", list(geometry.window)},
          {"strides", list(geometry.stride)},
          {"pads", pads(geometry.pad_begin, geometry.pad_end)}};
}

// Image, weights with their channels where images have them, bias.
Names operands(Converter& c, bool has_bias) {
  Names names{c.image(c.x(0)), c.image(c.x(1))};
  if (has_bias) names.push_back(c.plain(c.x(2)));
  return names;
}

// Passes that join ops do not run before an export.
void check_alone(const Converter& c, bool alone) {
  if (!alone) c.refuse("was joined with others");
}

}  // namespace

void convert(const Conv2d& op, Converter& c) {
  check_alone(c, op.activation == ActivationKind::kNone && !op.has_residual && !op.keep_pre);
  c.set_image(c.y(), c.emit("Conv", operands(c, op.has_bias), window(op.geometry, c.dims(c.x(1)))));
}

void convert(const Conv2dTranspose& op, Converter& c) {
  check_alone(c, op.activation == ActivationKind::kNone);
  const Dims &x = c.dims(c.x(0)), &w = c.dims(c.x(1));
  const ConvGeometry& g = op.geometry;
  // Rows and columns at the end that the windows do not reach, or reach only with a part.
  std::vector<int64_t> more;
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int>(i) + 1;
    const int64_t reached = (x[axis] - 1) * g.stride[i] + g.dilation[i] * (w[axis] - 1) + 1;
    more.push_back(op.y_dims[axis] - (reached - g.pad_begin[i] - g.pad_end[i]));
  }
  Attributes attributes = window(g, w);
  attributes.push_back({"output_padding", more});
  c.set_image(c.y(), c.emit("ConvTranspose", operands(c, op.has_bias), std::move(attributes)));
}

void convert(const Matmul& op, Converter& c) {
  check_alone(c, op.activation == ActivationKind::kNone && !op.keep_pre);
  Names names{c.plain(c.x(0)), c.plain(c.x(1))};
  if (op.has_bias) names.push_back(c.plain(c.x(2)));
  c.set_plain(c.y(),
              c.emit("Gemm", std::move(names),
                     {{"transA", int64_t{op.transpose_a}}, {"transB", int64_t{op.transpose_b}}}));
}

void convert(const MaxPool& op, Converter& c) {
  c.set_image(c.y(), c.emit("MaxPool", {c.image(c.x(0))}, window(op.geometry)));
}

void convert(const AvgPool& op, Converter& c) {
  const Dims& x = c.dims(c.x(0));
  const PoolGeometry& g = op.geometry;
  const bool is_global =
      g.window == Pair{x[1], x[2]} && g.pad_begin == Pair{} && g.pad_end == Pair{};
  const std::string image = c.image(c.x(0));
  c.set_image(c.y(), is_global ? c.emit("GlobalAveragePool", {image})
                               : c.emit("AveragePool", {image}, window(g)));
}

void convert(const WeightedFusion& op, Converter& c) {
  const Constant* const weights = c.constant(c.x(0));
  if (weights == nullptr) c.refuse("has weights that are not constant");
  const auto w = weights->as<float>();
  const float total = std::accumulate(w.begin(), w.end(), op.epsilon);
  std::string sum;
  for (int i = 1; i < c.inputs(); ++i) {
    const int64_t times = c.dims(c.y())[1] / c.dims(c.x(i))[1];
    std::string image = c.image(c.x(i));
    if (times > 1) image = c.repeated(image, times, times);
    const float share = w[static_cast<size_t>(i) - 1] / total;
    image = c.emit("Mul", {image, c.writer().number(share)});
    sum = i == 1 ? image : c.emit("Add", {sum, image});
  }
  if (op.activation == ActivationKind::kSwish) sum = c.emit("Mul", {sum, c.emit("Sigmoid", {sum})});
  c.set_image(c.y(), sum);
}

void convert(const BatchNormInference& op, Converter& c) {
  check_alone(c, op.activation == ActivationKind::kNone && !op.has_residual);
  const ValueId x = c.x(0), y = c.y();
  const Dims& dims = c.dims(x);
  const bool as_image = dims.rank() == 4, as_rows = dims.rank() == 2;
  Names names{as_image  ? c.image(x)
              : as_rows ? c.plain(x)
                        : c.reshaped(c.plain(x), std::array{Size{1, true}, Size{dims.back()}})};
  for (int i = 1; i < 5; ++i) names.push_back(c.plain(c.x(i)));
  const std::string result =
      c.emit("BatchNormalization", std::move(names), {{"epsilon", op.epsilon}});
  if (as_image) return c.set_image(y, result);
  c.set_plain(y, as_rows ? result : c.reshaped(result, c.sizes(y)));
}

void convert(const LayerNorm& op, Converter& c) {
  check_alone(c, op.rate == 0);
  std::string x = c.plain(c.x(0));
  if (op.has_residual) x = c.emit("Add", {x, c.plain(c.x(3))});
  c.set_plain(c.y(), c.emit("LayerNormalization", {x, c.plain(c.x(1)), c.plain(c.x(2))},
                            {{"axis", int64_t{-1}}, {"epsilon", op.epsilon}}));
}

}  // namespace assay::onnx
