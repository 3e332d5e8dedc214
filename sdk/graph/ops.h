// The vocabulary of the graph, in one file: every op as plain data.
//
// An op is a struct of its attributes. The list ASSAY_OPS at the end makes the variant `Op`; each
// layer declares one overload per op from that list (`infer` and `facts` in sdk/ops/, and there
// `grad` for ASSAY_DIFFERENTIABLE_OPS; `cpu::plan` and `cuda::plan` in
// sdk/backend/{cpu,cuda}/ops/), and a missing one is a link error that names the op. Printing and
// parsing go through `fields`.
//
// Conventions: images are NHWC and convolution weights are KRSC ([out, rows, columns, in/groups]),
// both dense; x, w, y are data, weights and output, dx, dw, dy their gradients; N batch, H W rows
// and columns, C K input and output channels. "data type" means f32, bf16 or f16 (GPU); statistics,
// losses, parameters' masters and optimizer state are f32. All sums accumulate in f32 at least.
// Shapes in brackets; [] is a scalar. Operands are dense; `reads` and `kWrites` say where an op can
// also work on views (see layout.h).
//
// An op that a lower precision makes faster says how many of its first inputs are to be given in
// it: kMatrixOperands.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/base/kernel_constants.h"
#include "sdk/graph/layout.h"
#include "sdk/graph/pointwise.h"
#include "sdk/graph/variable.h"

namespace assay {

// ---- Leaves -------------------------------------------------------------------------------------

/// y = the batch part called `name`, written by the caller before each run.
struct Input {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  static constexpr std::string_view kName = "input";
  static void fields(auto& self, auto&& f) {
    f("name", self.name), f("dtype", self.dtype), f("dims", self.dims);
  }
  bool operator==(const Input&) const = default;
};

/// y = one role (value, gradient, moment, ...) of the variable `name`; in a segment, across runs.
struct Parameter {
  std::string name;
  Role role = Role::kValue;
  DType dtype = DType::kF32;
  Dims dims;
  static constexpr std::string_view kName = "parameter";
  static void fields(auto& self, auto&& f) {
    f("name", self.name), f("role", self.role), f("dtype", self.dtype), f("dims", self.dims);
  }
  bool operator==(const Parameter&) const = default;
};

enum class ScalarKind : int32_t { kLearningRate = 0, kRandomStep = 1 };

/// y [] = a number that the host writes before each step.
///   kLearningRate f32; kRandomStep i64, the Philox counter
struct StepScalar {
  ScalarKind kind = ScalarKind::kLearningRate;
  static constexpr std::string_view kName = "step_scalar";
  static void fields(auto& self, auto&& f) { f("kind", self.kind); }
  bool operator==(const StepScalar&) const = default;
};

/// y [dims] f32 = value everywhere.
struct Fill {
  Dims dims;
  float value = 0;
  static constexpr Access kWrites{Access::Form::kDense, false, 4};  // wherever it begins
  static constexpr std::string_view kName = "fill";
  static void fields(auto& self, auto&& f) { f("dims", self.dims), f("value", self.value); }
  bool operator==(const Fill&) const = default;
};

// ---- From a batch as it is given to what a network reads ----------------------------------------
//
// None has a gradient.

/// y [N,H,W,channels] f32: images of bytes, placed and made numbers.
///   inputs    x [N,H,W,C] u8, C <= channels <= 4; placement [N,4] i32: dy, dx, mirror_y, mirror_x
///   pixel (i, j) of image n is pixel (i' + dy, j' + dx) of its bytes, i' = H - 1 - i where
///   mirror_y is not 0 and else i, j' alike; 0 outside. Byte b of channel c is (b * scale -
///   mean[c]) / stddev[c], each step rounded to f32; channels from C on are 0.
struct ImageFromBytes {
  int64_t channels = 3;
  float scale = 1.0f / 255.0f;
  std::array<float, 4> mean{0, 0, 0, 0};
  std::array<float, 4> stddev{1, 1, 1, 1};
  static constexpr std::string_view kName = "image_from_bytes";
  static void fields(auto& self, auto&& f) {
    f("channels", self.channels), f("scale", self.scale);
    f("mean", self.mean), f("stddev", self.stddev);
  }
  bool operator==(const ImageFromBytes&) const = default;
};

/// y[n] = w[n] x[n] + (1 - w[n]) x[N-1-n]: mixup (arXiv:1710.09412) with the batch read backwards.
///   inputs    x [N,...] f32, w [N] f32
struct MixRows {
  static constexpr std::string_view kName = "mix_rows";
  static void fields(auto&, auto&&) {}
  bool operator==(const MixRows&) const = default;
};

/// y [N,classes] f32 = w[n] q(labels[n]) + (1 - w[n]) q(labels[N-1-n]), q as in
/// SoftmaxCrossEntropy: the targets of mixed rows.
///   inputs    labels [N] i32 in [0, classes), w [N] f32
struct MixTargets {
  int64_t classes = 0;
  float label_smoothing = 0;
  static constexpr std::string_view kName = "mix_targets";
  static void fields(auto& self, auto&& f) {
    f("classes", self.classes), f("label_smoothing", self.label_smoothing);
  }
  bool operator==(const MixTargets&) const = default;
};

/// count [] f32 = how many targets are none of padding: of x i32, any dims, the elements that are
/// not negative; of x [N,...] f32 the rows that are not zero everywhere.
struct CountTargets {
  static constexpr std::string_view kName = "count_targets";
  static void fields(auto&, auto&&) {}
  bool operator==(const CountTargets&) const = default;
};

// ---- Shape and type -----------------------------------------------------------------------------

// The first four are views of x where it is: they cost nothing.

/// y = x with other dims of the same element count.   gradient  Reshape back
struct Reshape {
  Dims dims;
  static constexpr std::string_view kName = "reshape";
  static void fields(auto& self, auto&& f) { f("dims", self.dims); }
  bool operator==(const Reshape&) const = default;
};

/// y [dims] = the box of x that begins at `begin`: y[i] = x[begin + i].   gradient  SliceGrad
struct Slice {
  Dims begin;
  Dims dims;
  static constexpr Access reads(int) { return kAnyStrides; }
  static constexpr std::string_view kName = "slice";
  static void fields(auto& self, auto&& f) { f("begin", self.begin), f("dims", self.dims); }
  bool operator==(const Slice&) const = default;
};

/// dx [x_dims] = dy in the box that begins at `begin`, zero around it.
struct SliceGrad {
  Dims begin;
  Dims x_dims;
  static constexpr Access reads(int) { return kAnyStrides; }
  static constexpr std::string_view kName = "slice_grad";
  static void fields(auto& self, auto&& f) { f("begin", self.begin), f("x_dims", self.x_dims); }
  bool operator==(const SliceGrad&) const = default;
};

/// y = x with its axes in another order: axis k of y is axis axes[k] of x.
///   gradient  Transpose back
struct Transpose {
  Dims axes;
  static constexpr Access reads(int) { return kAnyStrides; }
  static constexpr std::string_view kName = "transpose";
  static void fields(auto& self, auto&& f) { f("axes", self.axes); }
  bool operator==(const Transpose&) const = default;
};

/// y = x in memory of its own; passes/views.h puts it where a view cannot be read.
///   gradient  dy
struct Copy {
  static constexpr Access reads(int) { return kAnyWithBorder; }
  static constexpr Access kWrites = kAnyStrides;
  static constexpr std::string_view kName = "copy";
  static void fields(auto&, auto&&) {}
  bool operator==(const Copy&) const = default;
};

/// y = x_0, x_1, ... one after the other along `axis`; the other sizes and the types are equal.
/// When it runs they stand there already: passes/views.h has them written to their places.
///   gradient  one Slice of dy for each input
struct Concat {
  int64_t axis = 0;
  static constexpr Access reads(int) { return kAnyStrides; }
  static constexpr std::string_view kName = "concat";
  static void fields(auto& self, auto&& f) { f("axis", self.axis); }
  bool operator==(const Concat&) const = default;
};

// ---- Elementwise --------------------------------------------------------------------------------

/// y = the last step of `code`, computed in f32 element by element and rounded to its type: sums,
/// casts, activations and their gradients (elementwise.h), masks, weighted sums.
///   inputs    x0, x1, ... of any data types, or i32: places and lengths, exact up to 2^24, to
///             mask by. Their dims are aligned at the last axis; an axis of size 1, or one that is
///             missing, is repeated: [C], [N,1], [N,1,1,C] and [] with [N,H,W,C]
///   output    y with the larger size of every axis, in `dtype`; without one in that of the inputs
///             of data types that have the dims of y, which must agree
///   gradient  per input a Pointwise of all of them and dy, and SumTo where the input is repeated;
///             of an activation see elementwise.h
struct Pointwise {
  PointwiseCode code;
  std::optional<DType> dtype;
  static constexpr Access reads(int) { return kAnyStrides; }
  static constexpr std::string_view kName = "pointwise";
  static void fields(auto& self, auto&& f) { f("code", self.code), f("dtype", self.dtype); }
  bool operator==(const Pointwise&) const = default;
};

/// y_i = x_i in `dtype`, each rounded as by a cast of its own: casts that one launch does together.
///   inputs    x_0 ... x_{n-1} of one data type, any dims.   No gradient: it comes after
struct Casts {
  DType dtype = DType::kF32;
  static constexpr std::string_view kName = "casts";
  static void fields(auto& self, auto&& f) { f("dtype", self.dtype); }
  bool operator==(const Casts&) const = default;
};

/// y [dims] f32 = sum of x over the axes that `dims`, aligned at the last one, has with size 1 or
/// not at all; no other may stand between those. Summed in f64, in a fixed order.
///   inputs    x; with a second one, like x, the sum is of x * times, each rounded to f32
///   gradient  dy repeated; `times` comes after
struct SumTo {
  Dims dims;
  static constexpr Access kWrites{Access::Form::kDense, false, 4};  // wherever it begins
  static constexpr std::string_view kName = "sum_to";
  static void fields(auto& self, auto&& f) { f("dims", self.dims); }
  bool operator==(const SumTo&) const = default;
};

/// dx = dy * f' from `saved` (see elementwise.h), and what it sums up to: the gradient of a bias
/// that was added in front of the activation. Made behind differentiation, on GPUs.
///   inputs    saved [..., C] data type, dy like it
///   outputs   dx like dy; sums [C] f32
struct ActivationGradSums {
  ActivationKind activation = ActivationKind::kRelu;
  static constexpr std::string_view kName = "activation_grad_sums";
  static void fields(auto& self, auto&& f) { f("activation", self.activation); }
  bool operator==(const ActivationGradSums&) const = default;
};

/// y = x * keep / (1 - rate), keep ~ Bernoulli(1 - rate) of Philox(seed, stream; step, element).
///   inputs    x any dims, data type; step [] i64 (StepScalar kRandomStep)
///   gradient  Dropout of dy with the same attributes: the mask is drawn again, not stored
struct Dropout {
  float rate = 0.5f;
  uint64_t seed = 0;
  uint64_t stream = 0;  // fixed when the layer is built, so passes cannot change the numbers
  static constexpr std::string_view kName = "dropout";
  static void fields(auto& self, auto&& f) {
    f("rate", self.rate), f("seed", self.seed), f("stream", self.stream);
  }
  bool operator==(const Dropout&) const = default;
};

// ---- Convolution and matrix product -------------------------------------------------------------

/// Window geometry shared by the convolutions: index 0 is rows, 1 is columns.
struct ConvGeometry {
  std::array<int64_t, 2> stride{1, 1};
  std::array<int64_t, 2> pad_begin{0, 0};
  std::array<int64_t, 2> pad_end{0, 0};
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;
  static void fields(auto& self, auto&& f) {
    f("stride", self.stride), f("pad_begin", self.pad_begin), f("pad_end", self.pad_end);
    f("dilation", self.dilation), f("groups", self.groups);
  }
  bool operator==(const ConvGeometry&) const = default;
};

/// y[n,p,q,k] = act(sum_{r,s,c} x[n, p*stride - pad + r*dilation, ..., c] * w[k,r,s,c]
///                  + bias[k] + residual[n,p,q,k]): cross-correlation, zero padding.
///   inputs    x [N,H,W,C], w [K,R,S,C/groups] of one data type; bias [K] if has_bias, f32 or on
///             GPUs of that type too; residual like y if has_residual
///   outputs   y [N,P,Q,K], P = (H + pads - dilation*(R-1) - 1) / stride + 1; if keep_pre what act
///             was applied to, like y: gradients of some kinds read it; if keep_sums the sums of y
///             and of y^2 over all but the last axis, [2,K] f32. Those are of f16 on GPUs, where
///             nothing is added or applied (decisions/0020)
///   gradient  of the activation from y, Conv2dGradData, Conv2dGradWeight; what is kept comes after
struct Conv2d {
  ConvGeometry geometry;
  bool has_bias = false;
  bool has_residual = false;
  ActivationKind activation = ActivationKind::kNone;
  bool keep_pre = false;
  bool keep_sums = false;
  static constexpr int kMatrixOperands = 2;
  bool is_plain() const {
    return !has_bias && !has_residual && activation == ActivationKind::kNone;
  }
  int residual_input() const { return 2 + has_bias; }
  int n_inputs() const { return residual_input() + has_residual; }
  static constexpr std::string_view kName = "conv2d";
  static void fields(auto& self, auto&& f) {
    ConvGeometry::fields(self.geometry, f);
    f("has_bias", self.has_bias), f("has_residual", self.has_residual);
    f("activation", self.activation), f("keep_pre", self.keep_pre);
    f("keep_sums", self.keep_sums);
  }
  bool operator==(const Conv2d&) const = default;
};

/// dx [x_dims] from (dy [N,P,Q,K], w [K,R,S,C/groups]), one data type; with an activation times
/// its f', from `saved` like dx (see elementwise.h), the last input. On GPUs, behind relu,
/// keep_sums gives a second output [C] f32: the sum of all pixels of dx.
struct Conv2dGradData {
  ConvGeometry geometry;
  Dims x_dims;
  ActivationKind activation = ActivationKind::kNone;
  bool keep_sums = false;
  static constexpr std::string_view kName = "conv2d_grad_data";
  static void fields(auto& self, auto&& f) {
    ConvGeometry::fields(self.geometry, f), f("x_dims", self.x_dims);
    f("activation", self.activation), f("keep_sums", self.keep_sums);
  }
  bool operator==(const Conv2dGradData&) const = default;
};

/// What arrives through a convolution at the relu that it reads, and what the normalisations in
/// front of that sum up of it: y = relu(sum of the BatchNorms of x_i + residual), g =
/// Conv2dGradData(dy, w) + addend where y > 0, and 0 elsewhere.
///   inputs    dy, w (as of Conv2dGradData), addend and residual if there are such; of each of
///             `norms`, 1 or 2, normalisations x_i, and gamma_i, beta_i, mean_i, var_i [C] f32. All
///             but these are f16, x_i, addend and residual [N,H,W,C]
///   outputs   g like x_i; of each normalisation [2,C] f32, its dgamma and dbeta
/// Made behind differentiation, on GPUs (decisions/0021).
struct Conv2dGradNorm {
  ConvGeometry geometry;
  float epsilon = 1e-5f;
  int64_t norms = 1;
  bool has_addend = false;
  bool has_residual = false;
  int residual_input() const { return 2 + has_addend; }
  int first_of_norm(int64_t i) const {
    return residual_input() + has_residual + 5 * static_cast<int>(i);
  }
  static constexpr std::string_view kName = "conv2d_grad_norm";
  static void fields(auto& self, auto&& f) {
    ConvGeometry::fields(self.geometry, f);
    f("epsilon", self.epsilon), f("norms", self.norms);
    f("has_addend", self.has_addend), f("has_residual", self.has_residual);
  }
  bool operator==(const Conv2dGradNorm&) const = default;
};

/// dw [w_dims] in `dtype` from (x, dy), f32 also of bf16 where no bits are to be lost; second
/// output dbias [K] f32 if has_bias. On GPUs dw has the type of x, and a node behind it casts.
struct Conv2dGradWeight {
  ConvGeometry geometry;
  Dims w_dims;
  DType dtype = DType::kF32;
  bool has_bias = false;
  static constexpr std::string_view kName = "conv2d_grad_weight";
  static void fields(auto& self, auto&& f) {
    ConvGeometry::fields(self.geometry, f);
    f("w_dims", self.w_dims), f("dtype", self.dtype), f("has_bias", self.has_bias);
  }
  bool operator==(const Conv2dGradWeight&) const = default;
};

/// y = act(the adjoint of conv2d {geometry} over images of y_dims, applied to x, + bias[k]): what
/// Conv2dGradData computes, used forwards. Also called deconvolution.
///   inputs    x [N,P,Q,C], w [C,R,S,K/groups] of one data type; bias [K] f32 if has_bias
///   output    y [y_dims] = [N,H,W,K], where conv2d {geometry} of it gives [N,P,Q,C]
///   TensorFlow's SAME with window 3 and stride 2 is H = 2P, pad_begin 0, pad_end 1.
///   gradient  of the activation from y, Conv2d, Conv2dGradWeight, SumTo
struct Conv2dTranspose {
  ConvGeometry geometry;
  Dims y_dims;
  bool has_bias = false;
  ActivationKind activation = ActivationKind::kNone;
  static constexpr int kMatrixOperands = 2;
  static constexpr Access kWrites = kRows;
  static constexpr std::string_view kName = "conv2d_transpose";
  static void fields(auto& self, auto&& f) {
    ConvGeometry::fields(self.geometry, f);
    f("y_dims", self.y_dims), f("has_bias", self.has_bias), f("activation", self.activation);
  }
  bool operator==(const Conv2dTranspose&) const = default;
};

/// y = act(op(a) * op(b) + bias), op transposing its matrix if told to; y in `dtype`.
///   inputs    a [M,K] ([K,M] if transpose_a), b [K,N] ([N,K] if transpose_b) of one data type,
///             bias [N] if has_bias, f32 or on GPUs of y's type. Linear layers keep w as [out, in].
///   outputs   y [M,N]; if keep_pre what act was applied to, like y (see Conv2d)
///   gradient  two Matmuls and SumTo; a weight's gradient is emitted in f32
struct Matmul {
  bool transpose_a = false;
  bool transpose_b = false;
  bool has_bias = false;
  ActivationKind activation = ActivationKind::kNone;
  DType dtype = DType::kF32;
  bool keep_pre = false;
  static constexpr int kMatrixOperands = 2;
  static constexpr Access reads(int input) { return input < 2 ? kAlignedRows : Access{}; }
  static constexpr std::string_view kName = "matmul";
  static void fields(auto& self, auto&& f) {
    f("transpose_a", self.transpose_a), f("transpose_b", self.transpose_b),
        f("has_bias", self.has_bias);
    f("activation", self.activation), f("dtype", self.dtype), f("keep_pre", self.keep_pre);
  }
  bool operator==(const Matmul&) const = default;
};

// ---- Pooling ------------------------------------------------------------------------------------

struct PoolGeometry {
  std::array<int64_t, 2> window{2, 2};
  std::array<int64_t, 2> stride{2, 2};
  std::array<int64_t, 2> pad_begin{0, 0};
  std::array<int64_t, 2> pad_end{0, 0};
  static void fields(auto& self, auto&& f) {
    f("window", self.window), f("stride", self.stride);
    f("pad_begin", self.pad_begin), f("pad_end", self.pad_end);
  }
  bool operator==(const PoolGeometry&) const = default;
};

/// y [N,P,Q,C] = maximum of x [N,H,W,C] over each window; padding never wins.
///   P = floor((H + pads - window) / stride) + 1
///   gradient  MaxPoolGrad(x, dy): all of dy goes to the window's first maximum, row by row
struct MaxPool {
  PoolGeometry geometry;
  static constexpr std::string_view kName = "max_pool";
  static void fields(auto& self, auto&& f) { PoolGeometry::fields(self.geometry, f); }
  bool operator==(const MaxPool&) const = default;
};

/// dx [N,H,W,C] like x from (x, dy). x may be read elsewhere as well, and be the output of an
/// activation; what belongs to that may be joined to it, in this order:
///   has_addend  + the gradient from another reader: input addend like x
///   activation  * f' from x: a kind whose gradient reads its output
struct MaxPoolGrad {
  PoolGeometry geometry;
  bool has_addend = false;
  ActivationKind activation = ActivationKind::kNone;
  static constexpr Access reads(int input) { return input == 2 ? kRowsWithBorder : Access{}; }
  static constexpr std::string_view kName = "max_pool_grad";
  static void fields(auto& self, auto&& f) {
    PoolGeometry::fields(self.geometry, f);
    f("has_addend", self.has_addend), f("activation", self.activation);
  }
  bool operator==(const MaxPoolGrad&) const = default;
};

/// y = mean of x over each window, counting only elements inside the image; a window of the whole
/// image is global pooling.
///   gradient  AvgPoolGrad(dy)
struct AvgPool {
  PoolGeometry geometry;
  static constexpr std::string_view kName = "avg_pool";
  static void fields(auto& self, auto&& f) { PoolGeometry::fields(self.geometry, f); }
  bool operator==(const AvgPool&) const = default;
};

/// dx [x_dims] from dy.
struct AvgPoolGrad {
  PoolGeometry geometry;
  Dims x_dims;
  static constexpr std::string_view kName = "avg_pool_grad";
  static void fields(auto& self, auto&& f) {
    PoolGeometry::fields(self.geometry, f), f("x_dims", self.x_dims);
  }
  bool operator==(const AvgPoolGrad&) const = default;
};

// ---- Feature fusion -----------------------------------------------------------------------------

/// y = act(sum_i w_i x_i / (sum_i w_i + epsilon)): EfficientDet's fast normalised fusion.
///   inputs    w [n] f32; x_1 .. x_n, n 2 or 3: images [N,H,W,C] of one data type, or of half
///             as many rows and columns, in which a pixel stands for two by two; one at least is of
///             the size of y. act is none or swish
///   gradient  WeightedFusionGrad.   source  arXiv:1911.09070, 3.3
struct WeightedFusion {
  float epsilon = 1e-4f;
  ActivationKind activation = ActivationKind::kNone;
  static constexpr std::string_view kName = "weighted_fusion";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("activation", self.activation);
  }
  bool operator==(const WeightedFusion&) const = default;
};

/// inputs   w, x_1 .. x_n, dy; what the activation was applied to is recomputed from w and x
/// outputs  dw [n] f32; dx_1 .. dx_n like x
struct WeightedFusionGrad {
  float epsilon = 1e-4f;
  ActivationKind activation = ActivationKind::kNone;
  static constexpr std::string_view kName = "weighted_fusion_grad";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("activation", self.activation);
  }
  bool operator==(const WeightedFusionGrad&) const = default;
};

// ---- Batch normalisation ------------------------------------------------------------------------

/// Training form: y = act(gamma * (x - mean) / sqrt(var + eps) + beta + residual), mean and
/// (biased) var over all but the last axis of this batch; act is none, relu or swish, and behind a
/// residual not swish, whose gradient reads what it is applied to.
///   inputs    x [..., C] data type; gamma, beta [C] f32; residual like x if has_residual; if
///             has_sums those that a Conv2d has kept of x, so that x is read once; then, if
///             normalizes_residual, gamma, beta and sums of the residual: what is added is its own
///             BatchNorm, with the same epsilon
///   outputs   y like x; mean [C], var [C] f32 (for RunningStatistics and the gradient); mean and
///             var of a residual that is normalised, too; if keep_mask, on GPUs behind a residual
///             and relu, [..., C / mask_pack] u8: bit i of a byte says that the gradient of its
///             element i passes
///   gradient  BatchNormGrad; sums, mask and the residual's own statistics come after.
///   source    arXiv:1502.03167
struct BatchNorm {
  float epsilon = 1e-5f;
  ActivationKind activation = ActivationKind::kNone;
  bool has_residual = false;
  bool has_sums = false;
  bool normalizes_residual = false;
  bool keep_mask = false;
  int sums_input() const { return 3 + has_residual; }
  int mask_output() const { return normalizes_residual ? 5 : 3; }
  // Elements of y that a byte of the mask is for: 16 bytes of them.
  static int64_t mask_pack(DType y) { return 16 / static_cast<int64_t>(dtype_size(y)); }
  static constexpr std::string_view kName = "batch_norm";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("activation", self.activation);
    f("has_residual", self.has_residual), f("has_sums", self.has_sums);
    f("normalizes_residual", self.normalizes_residual), f("keep_mask", self.keep_mask);
  }
  bool operator==(const BatchNorm&) const = default;
};

/// inputs   x, gamma, beta, mean, var, dy, y if reads_y() or with has_mask the mask instead, and
///          addend like dy if has_addend; if has_sums, without any of these, what Conv2dGradNorm
///          has summed up of dy: x and dy are read once. Then, if has_second, the same of another
///          normalisation that dy arrives at, x, gamma, beta, mean, var and sums
/// outputs  dx like x; dgamma, dbeta [C] f32; dresidual like x if has_residual; of the second
///          normalisation dx, dgamma and dbeta
/// With an addend the gradient is the sum of dy and it, rounded to their type. That needs a
/// residual, whose gradient keeps the sum.
/// Without a residual what the activation was applied to is recomputed from x with the forward's
/// own arithmetic, which saves reading y.
struct BatchNormGrad {
  float epsilon = 1e-5f;
  ActivationKind activation = ActivationKind::kNone;
  bool has_residual = false;
  bool has_addend = false;
  bool has_mask = false;
  bool has_sums = false;
  bool has_second = false;
  bool reads_y() const { return has_residual && activation != ActivationKind::kNone && !has_mask; }
  int addend_input() const { return 6 + reads_y() + has_mask; }
  static constexpr std::string_view kName = "batch_norm_grad";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("activation", self.activation);
    f("has_residual", self.has_residual), f("has_addend", self.has_addend);
    f("has_mask", self.has_mask), f("has_sums", self.has_sums);
    f("has_second", self.has_second);
  }
  bool operator==(const BatchNormGrad&) const = default;
};

/// A normalisation in front of squeeze-and-excitation, in training: y = swish(BatchNorm(x)), and of
/// every image the mean over its pixels, from y as it is stored. fuse_squeeze makes it, behind
/// differentiation: it has no gradient of its own.
///   inputs    x [N,H,W,C] data type; gamma, beta [C] f32
///   outputs   squeezed [N,1,1,C] like x; y like x; mean, var [C] f32
///   source    arXiv:1709.01507
struct SqueezedBatchNorm {
  float epsilon = 1e-5f;
  static constexpr std::string_view kName = "squeezed_batch_norm";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon); }
  bool operator==(const SqueezedBatchNorm&) const = default;
};

/// The gradient of SqueezedBatchNorm where y is read twice: squeezed, and multiplied by a gate.
/// What arrives at y is dproduct * gate + dsqueezed / (H * W).
///   inputs    x, gamma, beta, mean, var; dproduct like x; gate, dsqueezed [N,1,1,C] like x
///   outputs   dx like x; dgamma, dbeta [C] f32
struct SqueezedBatchNormGrad {
  float epsilon = 1e-5f;
  static constexpr std::string_view kName = "squeezed_batch_norm_grad";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon); }
  bool operator==(const SqueezedBatchNormGrad&) const = default;
};

/// A normalisation in front of relu and maxima, in training: y = MaxPool(relu(BatchNorm(x))), from
/// relu's values as they would be stored. fuse_batch_norm_max_pool makes it for GPUs, behind
/// differentiation: it has no gradient of its own.
///   inputs    x [N,H,W,C] data type; gamma, beta [C] f32
///   outputs   y [N,P,Q,C] like x; mean, var [C] f32; peaks like y, x where the maxima stand;
///             winners [N,P,Q,C] u8, their places in their windows, row by row, the first of equals
struct BatchNormMaxPool {
  static constexpr int64_t kMostTaps = 256;  // of a window
  float epsilon = 1e-5f;
  PoolGeometry geometry;
  static constexpr std::string_view kName = "batch_norm_max_pool";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), PoolGeometry::fields(self.geometry, f);
  }
  bool operator==(const BatchNormMaxPool&) const = default;
};

/// Its gradient: what arrives at x through the maxima, relu and the normalisation. Relu passes what
/// it passed forward, computed again.
///   inputs    x, gamma, beta, mean, var; dy, peaks and winners as y, peaks and winners are
///   outputs   dx like x; dgamma, dbeta [C] f32
struct BatchNormMaxPoolGrad {
  float epsilon = 1e-5f;
  PoolGeometry geometry;
  static constexpr std::string_view kName = "batch_norm_max_pool_grad";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), PoolGeometry::fields(self.geometry, f);
  }
  bool operator==(const BatchNormMaxPoolGrad&) const = default;
};

/// Inference form, with given statistics. No gradient; act may be swish behind a residual too.
///   inputs    x, gamma, beta, mean, var; residual if has_residual
struct BatchNormInference {
  float epsilon = 1e-5f;
  ActivationKind activation = ActivationKind::kNone;
  bool has_residual = false;
  static constexpr std::string_view kName = "batch_norm_inference";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("activation", self.activation);
    f("has_residual", self.has_residual);
  }
  bool operator==(const BatchNormInference&) const = default;
};

/// w' [K,R,S,C] f32, bias' [K] f32 such that conv(x, w') + bias' = BatchNormInference(conv(x, w)):
/// inputs w (f32), gamma, beta, mean, var. Runs once, when a predictor is prepared.
struct FoldBatchNorm {
  float epsilon = 1e-5f;
  static constexpr std::string_view kName = "fold_batch_norm";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon); }
  bool operator==(const FoldBatchNorm&) const = default;
};

/// (running_mean, running_var) <- (1-m) * running + m * (mean, var*unbias), m = momentum, in place,
/// of n normalisations.
///   inputs    running_mean_0 .., running_var_0 .., mean_0 .., var_0 .. [C_i] f32; loss [] f32:
///             nothing is updated unless it is finite, nor a channel whose fresh numbers are not,
///             which a relu may hide from the loss
///   outputs   running_mean'_0.., running_var'_0.. aliasing them
///   unbias    count/(count-1) for `count` > 1 (PyTorch, torchvision); 1 for count 0, the biased
///             variance (TensorFlow)
///   momentum  the weight of the NEW statistic: PyTorch's 0.1 is TensorFlow's and MXNet's 0.9
struct RunningStatistics {
  float momentum = 0.1f;
  int64_t count = 0;
  static constexpr std::string_view kName = "running_statistics";
  static void fields(auto& self, auto&& f) { f("momentum", self.momentum), f("count", self.count); }
  bool operator==(const RunningStatistics&) const = default;
};

// ---- Layer normalisation ------------------------------------------------------------------------

/// y = gamma * (z - mean) / sqrt(var + eps) + beta, mean and (biased) var of each row, over the
/// last axis; z = dropout(x) + residual, with the mask that Dropout of the same attributes draws.
///   inputs    x [..., C] data type; gamma, beta [C] f32; residual like x if has_residual; step []
///             i64 (StepScalar kRandomStep) if rate > 0
///   outputs   y like x; mean, rstd [...] f32, rstd = 1 / sqrt(var + eps); z like x where it is
///             not x
///   gradient  LayerNormGrad.   source  arXiv:1607.06450
struct LayerNorm {
  float epsilon = 1e-12f;
  bool has_residual = false;
  float rate = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  bool keeps_z() const { return has_residual || rate > 0; }
  int step_input() const { return 3 + has_residual; }
  static constexpr std::string_view kName = "layer_norm";
  static void fields(auto& self, auto&& f) {
    f("epsilon", self.epsilon), f("has_residual", self.has_residual);
    f("rate", self.rate), f("seed", self.seed), f("stream", self.stream);
  }
  bool operator==(const LayerNorm&) const = default;
};

/// inputs   z (x where that is z), gamma, mean, rstd, dy; step if rate > 0; addend like dy if
///          has_addend
/// outputs  dz like z, the residual's gradient too; dgamma, dbeta [C] f32; dx = dropout(dz) if rate
///          > 0; if keep_sums [C] f32, the sums of dx, or of dz where that is dx
/// With an addend the gradient is the sum of dy and it, rounded to their type. Addend and sums come
/// behind differentiation, on GPUs.
struct LayerNormGrad {
  float rate = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  bool has_addend = false;
  bool keep_sums = false;
  int addend_input() const { return 5 + (rate > 0); }
  int dx_output() const { return rate > 0 ? 3 : 0; }
  int sums_output() const { return 3 + (rate > 0); }
  static constexpr std::string_view kName = "layer_norm_grad";
  static void fields(auto& self, auto&& f) {
    f("rate", self.rate), f("seed", self.seed), f("stream", self.stream);
    f("has_addend", self.has_addend), f("keep_sums", self.keep_sums);
  }
  bool operator==(const LayerNormGrad&) const = default;
};

// ---- Transformers -------------------------------------------------------------------------------
//
// A batch of sequences is one tensor of T tokens. Sequence b of B owns the rows start[b] to
// start[b] + length[b] - 1: padded sequences of L rows begin at 0, L, 2L, ..., packed ones at the
// sum of the lengths before. They stand in ascending order; of rows that are outside of the tensor,
// that an earlier sequence owns or that come after `longest` of a sequence, it owns none, whatever
// the numbers say.

/// context[t, h] = sum_j keep_tj softmax_j(scale * q[t, h] . k[j, h]) v[j, h] over the tokens j of
/// the sequence that owns row t, keep = 1 / (1 - rate) with probability 1 - rate, else 0, of
/// Philox(seed, stream; step, (t * heads + h) * L + j - start), L = longest rounded up to a
/// multiple of 4; cuDNN, on GPUs, draws other masks from seed, stream and step. Scores and weights
/// are f32 and stay where they are made: nothing of L x L is kept.
///   inputs    qkv [T,3H] data type: q, k, v of the token side by side, each [heads, H / heads];
///             start, length [B] i32; step [] i64 (StepScalar kRandomStep) if rate > 0
///   outputs   context [T,H] like qkv; logsumexp [T,heads] f32, of the scaled scores; both zero in
///             rows that no sequence owns
///   gradient  AttentionGrad.   source  arXiv:1706.03762, section 3.2.1; arXiv:2205.14135
struct Attention {
  int64_t heads = 1;
  float scale = 1;
  int64_t longest = 0;  // tokens of a sequence: what work space is planned for
  float rate = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  static constexpr int kMatrixOperands = 1;
  static constexpr std::string_view kName = "attention";
  static void fields(auto& self, auto&& f) {
    f("heads", self.heads), f("scale", self.scale), f("longest", self.longest);
    f("rate", self.rate), f("seed", self.seed), f("stream", self.stream);
  }
  bool operator==(const Attention&) const = default;
};

/// dqkv like qkv, zero in rows that no sequence owns: weights are computed again from logsumexp,
/// masks drawn again.
///   inputs    qkv, start, length, context, logsumexp, dcontext; step if rate > 0
struct AttentionGrad {
  int64_t heads = 1;
  float scale = 1;
  int64_t longest = 0;
  float rate = 0;
  uint64_t seed = 0;
  uint64_t stream = 0;
  static constexpr std::string_view kName = "attention_grad";
  static void fields(auto& self, auto&& f) {
    f("heads", self.heads), f("scale", self.scale), f("longest", self.longest);
    f("rate", self.rate), f("seed", self.seed), f("stream", self.stream);
  }
  bool operator==(const AttentionGrad&) const = default;
};

/// y[p] = sum over k of row index_k[p] of table_k, in the order of the tables; a number that is no
/// row adds nothing (-1 by convention). Embeddings, and rows of data: answers, masked positions.
///   inputs    table_0 ... table_{n-1} [rows_k,C] of one data type, then index_0 ... index_{n-1}
///             [P] i32; n <= kMostTables
///   output    y [P,C] in `dtype`
///   gradient  one GatherRowsGrad for each table
struct GatherRows {
  DType dtype = DType::kF32;
  static constexpr int kMatrixOperands = 0;  // tables are read as they are, y is of the lower type
  static constexpr std::string_view kName = "gather_rows";
  static void fields(auto& self, auto&& f) { f("dtype", self.dtype); }
  bool operator==(const GatherRows&) const = default;
};

/// y [rows,C] in `dtype`: row r is the sum of dy[p] over the places p that ask for it, ascending
/// (on GPUs in chunks), behind row r of the addend if there is one.
///   inputs    index [P] i32, dy [P,C] data type; addend like y if has_addend
struct GatherRowsGrad {
  int64_t rows = 0;
  DType dtype = DType::kF32;
  bool has_addend = false;
  static constexpr std::string_view kName = "gather_rows_grad";
  static void fields(auto& self, auto&& f) {
    f("rows", self.rows), f("dtype", self.dtype), f("has_addend", self.has_addend);
  }
  bool operator==(const GatherRowsGrad&) const = default;
};

// ---- Places of tokens ---------------------------------------------------------------------------

/// y [count] i32: y[i] = (i mod period) * step. Places in padded sequences, and where those
/// begin.
struct Arange {
  int64_t count = 0, period = 1, step = 1;
  static constexpr std::string_view kName = "arange";
  static void fields(auto& self, auto&& f) {
    f("count", self.count), f("period", self.period), f("step", self.step);
  }
  bool operator==(const Arange&) const = default;
};

/// y [N] i32: y[i] = index[i] + start[i / (N / B)], -1 where index[i] is negative: places within
/// sequences as rows of all of them.
///   inputs    index i32 of any dims with N elements, start [B] i32; B divides N
struct OffsetIndex {
  static constexpr std::string_view kName = "offset_index";
  static void fields(auto&, auto&&) {}
  bool operator==(const OffsetIndex&) const = default;
};

/// Sequences of a padded batch moved together: places there and here, so that nothing is computed
/// for padding. The lengths together must be at most `capacity`.
///   input     length [B] i32, 0 to `longest`
///   outputs   start [B] i32, the first row of each sequence; source [capacity] i32, the row of the
///             padded batch (B * longest rows) that a row holds, -1 behind the last; target
///             [B * longest] i32, the row that a row of the padded batch has got, -1 for padding
struct PackedPlaces {
  int64_t capacity = 0, longest = 0;
  static constexpr std::string_view kName = "packed_places";
  static void fields(auto& self, auto&& f) {
    f("capacity", self.capacity), f("longest", self.longest);
  }
  bool operator==(const PackedPlaces&) const = default;
};

// ---- Tokens replaced by a generator's (ELECTRA) -------------------------------------------------
//
// None has a gradient. Words are drawn by their place, used or not, so that nothing depends on
// order: word n of (seed, stream; step); u = (word >> 8) / 2^24. Sums of probabilities are
// integers, the same in every order. tests/fixtures/models/make_sampling.py says it in NumPy, bit
// for bit.

/// Draws tokens of each sequence, with repetition, and shows most of them as `mask`.
///   inputs    ids [B,L] i32, length [B] i32, step [] i64
///   outputs   masked [B,L] i32; positions [B,slots] i32; labels [B,slots] i32: the ids there
///   Of the m tokens below n = length that are neither cls, sep nor mask, k = clamp(fraction * n
///   rounded half to even, 1, slots) are drawn (none if m = 0): slot p takes number floor(u m), u
///   of word 2 (b slots + p), and shows it as `mask` if u < shown, u of the word behind. Unused
///   slots have position 0 and label -1.
struct MaskTokens {
  int64_t slots = 1;
  double fraction = 0.15;
  float shown = 0.85f;
  int32_t cls = 101, sep = 102, mask = 103;  // of BERT's uncased vocabulary
  uint64_t seed = 0;
  uint64_t stream = 0;
  bool is_special(int32_t id) const { return id == cls || id == sep || id == mask; }
  static constexpr std::string_view kName = "mask_tokens";
  static void fields(auto& self, auto&& f) {
    f("slots", self.slots), f("fraction", self.fraction), f("shown", self.shown);
    f("cls", self.cls), f("sep", self.sep), f("mask", self.mask);
    f("seed", self.seed), f("stream", self.stream);
  }
  bool operator==(const MaskTokens&) const = default;
};

/// y [N] i32: a draw from softmax(logits[r]) for each row, by its inverse distribution.
///   inputs    logits [N,V] data type, step [] i64
///   Id v weighs w = rint(e^(logit - logsumexp) 2^39), 0 if not finite, of at most 2^39; y is the
///   smallest v with (w_0 + ... + w_v) 2^24 > (word >> 8) (sum of all), of word r; 0 if all weigh
///   0.
struct SampleTokens {
  uint64_t seed = 0;
  uint64_t stream = 0;
  static constexpr std::string_view kName = "sample_tokens";
  static void fields(auto& self, auto&& f) { f("seed", self.seed), f("stream", self.stream); }
  bool operator==(const SampleTokens&) const = default;
};

/// Puts samples in the place of tokens.
///   inputs    ids [B,L], length [B], positions [B,P], labels [B,P], samples [B P], all i32
///   outputs   corrupted [B,L] i32: ids with, at each position of a slot whose label is not
///             negative, the floor of the mean of the samples of all such slots there;
///             replaced [B,L] i32: 1 where that differs from ids, else 0, -1 from length on
struct ReplaceTokens {
  static constexpr std::string_view kName = "replace_tokens";
  static void fields(auto&, auto&&) {}
  bool operator==(const ReplaceTokens&) const = default;
};

// ---- Loss and metrics ---------------------------------------------------------------------------

/// y = softmax(x) along the last axis, with `log` its logarithm; x [N,C] data type, y f32. No
/// gradient (training uses SoftmaxCrossEntropy).
struct Softmax {
  bool log = false;
  static constexpr std::string_view kName = "softmax";
  static void fields(auto& self, auto&& f) { f("log", self.log); }
  bool operator==(const Softmax&) const = default;
};

/// The k largest numbers of each row, in descending order, and the columns where they stand. Of
/// equal ones the smaller column is first; NaN comes behind all numbers. No gradient.
///   inputs    x [N,C] data type, C >= k
///   outputs   value [N,k] f32, column [N,k] i32
struct TopK {
  int64_t k = 1;
  static constexpr std::string_view kName = "top_k";
  static void fields(auto& self, auto&& f) { f("k", self.k); }
  bool operator==(const TopK&) const = default;
};

/// What a sum over N rows is multiplied by. Rows of padding, label -1, add nothing: they count in
/// kMean and do not in kCountedMean, which is 1 / (count + epsilon).
enum class Reduction : int32_t { kSum = 0, kMean = 1, kCountedMean = 2 };

/// loss [] f32 = reduction over the rows of -sum_c q[n,c] log softmax(x[n])[c],
/// q = (1 - s) onehot(label) + s/C, s = label_smoothing, over the first C = classes columns; 0: all
/// of them. Others are what a table was padded with.
///   inputs    logits [N,columns] data type, labels [N] i32 in [0,C), -1 in rows of padding
///   outputs   loss; with kCountedMean count [] f32, and logsumexp [N] f32, which is 0 in rows that
///             do not count
///   gradient  SoftmaxCrossEntropyGrad
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
  float epsilon = 0;
  int64_t classes = 0;
  static constexpr std::string_view kName = "softmax_cross_entropy";
  static void fields(auto& self, auto&& f) {
    f("label_smoothing", self.label_smoothing), f("reduction", self.reduction);
    f("epsilon", self.epsilon), f("classes", self.classes);
  }
  bool operator==(const SoftmaxCrossEntropy&) const = default;
};

/// dlogits like logits = dloss * reduction * (softmax(x) - q); zero in rows of label -1 and in
/// columns that are no classes.
///   inputs    logits, labels, dloss [] f32; count [] f32 with kCountedMean
struct SoftmaxCrossEntropyGrad {
  float label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
  float epsilon = 0;
  int64_t classes = 0;
  static constexpr std::string_view kName = "softmax_cross_entropy_grad";
  static void fields(auto& self, auto&& f) {
    f("label_smoothing", self.label_smoothing), f("reduction", self.reduction);
    f("epsilon", self.epsilon), f("classes", self.classes);
  }
  bool operator==(const SoftmaxCrossEntropyGrad&) const = default;
};

/// loss [] f32 = sum of -log sigmoid(x) where the target is 1 and -log sigmoid(-x) where it is 0,
/// over (count + epsilon); padding, target -1, adds nothing and does not count.
///   inputs    x [N] data type, target [N] i32
///   outputs   loss; count [] f32
///   gradient  SigmoidCrossEntropyGrad
struct SigmoidCrossEntropy {
  float epsilon = 0;
  static constexpr std::string_view kName = "sigmoid_cross_entropy";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon); }
  bool operator==(const SigmoidCrossEntropy&) const = default;
};

/// dx like x = dloss / (count + epsilon) * (sigmoid(x) - target), zero where that is -1.
///   inputs    x, target, dloss [] f32, count
struct SigmoidCrossEntropyGrad {
  float epsilon = 0;
  static constexpr std::string_view kName = "sigmoid_cross_entropy_grad";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon); }
  bool operator==(const SigmoidCrossEntropyGrad&) const = default;
};

/// loss [] f32 = (1/N if mean) * sum_n 1/P sum_p -sum_c t[n,p,c] log softmax(x[n,p])[c], over the P
/// pixels of each image: a sum of means, or the mean over all pixels.
///   inputs    logits [N,...,C] data type, target like it in f32: any weights, not only one-hot;
///             all zero adds nothing
///   gradient  SoftTargetCrossEntropyGrad(logits, target, dloss [] f32)
struct SoftTargetCrossEntropy {
  bool mean = true;
  static constexpr std::string_view kName = "soft_target_cross_entropy";
  static void fields(auto& self, auto&& f) { f("mean", self.mean); }
  bool operator==(const SoftTargetCrossEntropy&) const = default;
};

/// dlogits like logits = dloss * (softmax(x) * sum_c t[c] - t) / P (* 1/N if mean).
struct SoftTargetCrossEntropyGrad {
  bool mean = true;
  static constexpr std::string_view kName = "soft_target_cross_entropy_grad";
  static void fields(auto& self, auto&& f) { f("mean", self.mean); }
  bool operator==(const SoftTargetCrossEntropyGrad&) const = default;
};

/// Soft DICE with squares in the denominator, per image and class, p = softmax(logits), sums over
/// the pixels: D[n,c] = (2 sum(p t) + epsilon) / (sum(p^2) + sum(t^2) + epsilon);
/// loss [] f32 = (1/N if mean) * sum_n 1/C sum_c (1 - D[n,c]). No threshold, no argmax.
///   inputs    logits [N,...,C] data type, target like it in f32; an image whose target is zero
///             everywhere is padding and adds nothing
///   outputs   loss; sums [N,3,C] f32: sum(p t), sum(p^2), sum(t^2)
///   gradient  SoftDiceLossGrad(logits, target, sums, dloss [] f32).   source  arXiv:1606.04797
struct SoftDiceLoss {
  float epsilon = 1e-6f;
  bool mean = true;
  static constexpr std::string_view kName = "soft_dice_loss";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon), f("mean", self.mean); }
  bool operator==(const SoftDiceLoss&) const = default;
};

/// dlogits like logits.
struct SoftDiceLossGrad {
  float epsilon = 1e-6f;
  bool mean = true;
  static constexpr std::string_view kName = "soft_dice_loss_grad";
  static void fields(auto& self, auto&& f) { f("epsilon", self.epsilon), f("mean", self.mean); }
  bool operator==(const SoftDiceLossGrad&) const = default;
};

/// count [] f32 = rows whose label is among the k largest logits. A tie counts for the smaller
/// class index; NaN never counts.
///   inputs    logits [N,C] data type, labels [N] i32 (-1 never counts)
struct TopKCorrect {
  int64_t k = 1;
  static constexpr std::string_view kName = "top_k_correct";
  static void fields(auto& self, auto&& f) { f("k", self.k); }
  bool operator==(const TopKCorrect&) const = default;
};

// ---- Boxes (detection of objects) ---------------------------------------------------------------
//
// A box is (ymin, xmin, ymax, xmax) in pixels, f32; an anchor is a box. Heads see the image at L
// levels: class logits [B,h,w,k C] and box codes [B,h,w,k 4] of k anchors a cell, of data types.
// Anchors and (anchor, class) pairs are numbered level after level, each as its tensor lies in
// memory: A anchors in all, pair = anchor * C + class. What has places for G boxes says in `count`
// [B] i32 how many an image has; -1: the row is none of the batch, padding, and adds nothing.

/// y [A,4] f32: nine boxes at the middle of every cell of rows/s x columns/s, s = 2^level: sizes
/// scale s 2^(o/3), o = 0, 1, 2, each in the aspects (1, 1), (0.7, 1.4), (1.4, 0.7) of (height,
/// width). Computed in f64 and rounded. The last level's s divides rows and columns.
struct Anchors {
  int64_t rows = 0, columns = 0;
  int64_t first_level = 3, last_level = 7;
  float scale = 4;
  static constexpr std::string_view kName = "anchors";
  static void fields(auto& self, auto&& f) {
    f("rows", self.rows), f("columns", self.columns);
    f("first_level", self.first_level), f("last_level", self.last_level), f("scale", self.scale);
  }
  bool operator==(const Anchors&) const = default;
};

/// Which box each anchor stands for: the one it overlaps most (the lower of equals) if that is at
/// least `threshold`, by area of the intersection over that of the union. Then each box takes the
/// anchor it overlaps most (the lower of equals); of boxes that take the same one the lower has it.
///   inputs    boxes [B,G,4] f32, count [B] i32, anchors [A,4] f32
///   outputs   match [B,A] i32: the box, -1: none, -2: padding; positives [] f32: matches >= 0.
///   No gradient.
struct MatchAnchors {
  float threshold = 0.5f;
  static constexpr std::string_view kName = "match_anchors";
  static void fields(auto& self, auto&& f) { f("threshold", self.threshold); }
  bool operator==(const MatchAnchors&) const = default;
};

/// Focal loss of classes and Huber loss of boxes over all levels, with N = positives + 1. z = 1 for
/// the class of the box that matches the pair's anchor, else 0:
///   class_loss  sum over pairs of (z alpha + (1 - z) (1 - alpha)) (1 - p)^gamma -log p / N, p =
///               sigmoid(x) where z is 1 and sigmoid(-x) else
///   box_loss    sum over coordinates of matched anchors of h(code - target) / (4 N), without those
///               whose target is exactly 0; h(e) = e^2/2 where |e| <= delta, else delta (|e| -
///               delta/2). The target of anchor (y, x, h, w) for box (y', x', h', w'), given by
///               their middles and sizes of at least 1e-8, is (y' - y) / h, (x' - x) / w,
///               log(h'/h), log(w'/w)
///   loss        class_loss + box_weight box_loss
///   inputs    L class logits, L box codes, boxes [B,G,4] f32, classes [B,G] i32 in [0,C),
///             anchors [A,4], match [B,A], positives []
///   outputs   loss, class_loss, box_loss [] f32, summed in f64 in a fixed order; the first has a
///             gradient. A matched class outside [0,C) makes them NaN
///   gradient  DetectionLossGrad
///   source    arXiv:1708.02002
struct DetectionLoss {
  float alpha = 0.25f;
  float gamma = 1.5f;
  float delta = 0.1f;
  float box_weight = 50;
  static constexpr std::string_view kName = "detection_loss";
  static void fields(auto& self, auto&& f) {
    f("alpha", self.alpha), f("gamma", self.gamma);
    f("delta", self.delta), f("box_weight", self.box_weight);
  }
  bool operator==(const DetectionLoss&) const = default;
};

/// The gradients of class logits and box codes, 2 L outputs, from the same inputs and dloss [] f32,
/// the last.
struct DetectionLossGrad {
  float alpha = 0.25f;
  float gamma = 1.5f;
  float delta = 0.1f;
  float box_weight = 50;
  static constexpr std::string_view kName = "detection_loss_grad";
  static void fields(auto& self, auto&& f) {
    f("alpha", self.alpha), f("gamma", self.gamma);
    f("delta", self.delta), f("box_weight", self.box_weight);
  }
  bool operator==(const DetectionLossGrad&) const = default;
};

/// The `count` largest numbers of each image's levels together, in descending order, and their
/// pairs. Of equal ones the lower pair is first; NaN comes behind all numbers. No gradient.
///   inputs    L tensors [B,...] of one data type
///   outputs   value [B,count] f32, pair [B,count] i32
struct TopCandidates {
  int64_t count = 5000;
  static constexpr std::string_view kName = "top_candidates";
  static void fields(auto& self, auto&& f) { f("count", self.count); }
  bool operator==(const TopCandidates&) const = default;
};

/// boxes [B,K,4] f32 that the codes of the pairs' anchors mean: DetectionLoss's targets, backwards.
/// Codes stop at kMostBoxShift and kMostBoxGrowth, so that areas are finite. No gradient.
///   inputs    L box codes, anchors [A,4] f32, pair [B,K] i32 in [0, A classes)
struct DecodeBoxes {
  int64_t classes = 1;
  static constexpr std::string_view kName = "decode_boxes";
  static void fields(auto& self, auto&& f) { f("classes", self.classes); }
  bool operator==(const DecodeBoxes&) const = default;
};

/// Of the candidates of each class, class = pair mod classes, again and again the best is taken,
/// and the scores of those left are multiplied by exp(-o^2 / sigma), o their overlap with it; those
/// below `least` are dropped, but the first of a class is always taken. Of all taken the `count`
/// best by score stay; of equals the lower class. Sizes are (max - min + 1) in o.
///   inputs    boxes [B,K,4] f32, score [B,K] f32, pair [B,K] i32
///   outputs   box [B,count,4] f32, score [B,count] f32, class [B,count] i32, best first; behind
///             the last 0, 0 and -1.   No gradient.
///   source    arXiv:1704.04503, Gaussian form
struct SoftSuppression {
  int64_t classes = 1;
  int64_t count = 100;
  float sigma = 0.5f;
  float least = 0.001f;
  static constexpr std::string_view kName = "soft_suppression";
  static void fields(auto& self, auto&& f) {
    f("classes", self.classes), f("count", self.count);
    f("sigma", self.sigma), f("least", self.least);
  }
  bool operator==(const SoftSuppression&) const = default;
};

/// Of all candidates with a score above `least`, which come best first, those stay that overlap
/// none that stays before by more than `most`, whatever their classes; the first `count` of them,
/// with their boxes clipped to [0, limit[0]] rows and [0, limit[1]] columns.
///   inputs, outputs   as SoftSuppression
struct HardSuppression {
  int64_t classes = 1;
  int64_t count = 100;
  float most = 0.5f;
  float least = 0.4f;
  std::array<int64_t, 2> limit{0, 0};
  static constexpr std::string_view kName = "hard_suppression";
  static void fields(auto& self, auto&& f) {
    f("classes", self.classes), f("count", self.count);
    f("most", self.most), f("least", self.least), f("limit", self.limit);
  }
  bool operator==(const HardSuppression&) const = default;
};

// ---- Gradients and updates ----------------------------------------------------------------------
//
// Updates are in place: the output is the input's memory after the update, and no node ordered
// later reads the old value. All take `skip` [] f32: when it is not 0 nothing changes.

/// dst <- src, or dst + src if accumulate: inputs dst (Parameter kGradient), src f32. The output
/// aliases dst.
struct Store {
  bool accumulate = false;
  static constexpr std::string_view kName = "store";
  static void fields(auto& self, auto&& f) { f("accumulate", self.accumulate); }
  bool operator==(const Store&) const = default;
};

/// g_i <- the sum of what every device has for it, for n gradients that lie side by side. Summed in
/// order of the devices' ranks, so that all get the same bits. With `wire` f16 what a device has is
/// rounded to f16 before, and the sum (in f32) after.
///   inputs    g_0 ... g_{n-1} f32
///   outputs   g'_0.. aliasing them
struct AllReduce {
  std::optional<DType> wire;  // f32 if not given
  static constexpr std::string_view kName = "all_reduce";
  static void fields(auto& self, auto&& f) { f("wire", self.wire); }
  bool operator==(const AllReduce&) const = default;
};

/// g_i <- g_i + loss_scale * accumulate * weight_decay * p_i for n gradients as of ClipGradients:
/// what weight_decay / 2 * |p_i|^2 adds to them as a part of the loss.
///   inputs    loss_scale [] f32, p_0 ... p_{n-1}, g_0 ... g_{n-1} f32
///   outputs   g'_0.. aliasing the gradients; loss [] f32 = weight_decay / 2 * sum |p_i|^2, summed
///             in f64 in a fixed order
struct DecayGradients {
  float weight_decay = 0;
  int64_t accumulate = 1;
  static constexpr std::string_view kName = "decay_gradients";
  static void fields(auto& self, auto&& f) {
    f("weight_decay", self.weight_decay), f("accumulate", self.accumulate);
  }
  bool operator==(const DecayGradients&) const = default;
};

/// g_i <- g_i min(1, clip_norm / n_i) for n gradients, each multiplied by loss_scale and summed
/// over `accumulate` batches: n_i = |g_i| / (loss_scale * accumulate), summed as by GradientNorm. A
/// gradient that is not finite stays as it is, for GradientNorm to find.
///   inputs    loss_scale [] f32, g_0 ... g_{n-1} f32
///   outputs   g'_0.. aliasing them
struct ClipGradients {
  float clip_norm = 1;
  int64_t accumulate = 1;
  static constexpr std::string_view kName = "clip_gradients";
  static void fields(auto& self, auto&& f) {
    f("clip_norm", self.clip_norm), f("accumulate", self.accumulate);
  }
  bool operator==(const ClipGradients&) const = default;
};

/// Looks at all gradients g_i, each multiplied by loss_scale and summed over `accumulate` batches.
///   inputs    loss_scale [] f32, g_0 ... g_{n-1} f32
///   outputs   norm [] f32 = sqrt(sum |g_i|^2) / (loss_scale * accumulate), summed in f64 in a
///             fixed order
///             multiplier [] f32 = clip / (loss_scale * accumulate), clip = 1 if clip_norm is 0,
///             else min(1, clip_norm / norm)
///             skip [] f32 = 1 if a gradient, the norm or the multiplier is NaN or infinite in
///             f32, else 0
struct GradientNorm {
  float clip_norm = 0;
  int64_t accumulate = 1;
  static constexpr std::string_view kName = "gradient_norm";
  static void fields(auto& self, auto&& f) {
    f("clip_norm", self.clip_norm), f("accumulate", self.accumulate);
  }
  bool operator==(const GradientNorm&) const = default;
};

/// step <- step + 1 unless skip: inputs step [] i64, skip.
struct CountStep {
  static constexpr std::string_view kName = "count_step";
  static void fields(auto&, auto&&) {}
  bool operator==(const CountStep&) const = default;
};

/// Dynamic loss scaling: on skip, scale <- max(scale * backoff, minimum) and good <- 0; otherwise
/// good <- good + 1 and, every `interval` good steps, scale <- min(scale * growth, maximum).
///   inputs    scale [] f32, good [] i32, skip
struct LossScaleUpdate {
  float growth = 2.0f;
  float backoff = 0.5f;
  int64_t interval = 2000;
  float minimum = 1.0f;
  float maximum = 16777216.0f;
  static constexpr std::string_view kName = "loss_scale_update";
  static void fields(auto& self, auto&& f) {
    f("growth", self.growth), f("backoff", self.backoff), f("interval", self.interval);
    f("minimum", self.minimum), f("maximum", self.maximum);
  }
  bool operator==(const LossScaleUpdate&) const = default;
};

/// SGD with momentum over n variables of one group, g = gradient * multiplier + weight_decay * p,
/// lr = rate * lr_scale:
///   kPyTorch   m <- momentum*m + g;     p <- p - lr * (nesterov ? g + momentum*m : m)
///   kSutskever m <- momentum*m - lr*g;  p <- p + (nesterov ? momentum*m - lr*g : m)
/// The first is PyTorch's and TensorFlow 1's, the second Keras', MXNet's and Caffe's, whose m is a
/// step of the weight and so has the opposite sign. They differ when the rate changes.
///   inputs    rate, multiplier, skip [], then p_0..p_{n-1}, g_0.., m_0.. (no m if momentum is 0)
///   outputs   p'_0.., m'_0.. aliasing them
enum class MomentumConvention : int32_t { kPyTorch = 0, kSutskever = 1 };
struct SgdUpdate {
  float momentum = 0;
  bool nesterov = false;
  MomentumConvention convention = MomentumConvention::kPyTorch;
  float weight_decay = 0;
  float lr_scale = 1;
  static constexpr std::string_view kName = "sgd_update";
  static void fields(auto& self, auto&& f) {
    f("momentum", self.momentum), f("nesterov", self.nesterov), f("convention", self.convention);
    f("weight_decay", self.weight_decay), f("lr_scale", self.lr_scale);
  }
  bool operator==(const SgdUpdate&) const = default;
};

/// Adam and AdamW, t = step (already counted, from 1), lr = rate * lr_scale,
/// g = gradient * multiplier (+ weight_decay * p unless decoupled):
///   m <- b1*m + (1-b1)*g;  v <- b2*v + (1-b2)*g^2
///   kPyTorch    p <- p - lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
///   kTensorFlow p <- p - lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v) + eps)
///   decoupled   first p <- p - lr * weight_decay * p
/// Without bias_correction 1-b1^t and 1-b2^t are 1 (the AdamW of BERT).
///   inputs    rate, multiplier, skip, step [] i64, then p.., g.., m.., v..
///   outputs   p'.., m'.., v'.. aliasing them
///   source    arXiv:1412.6980, §2 for kTensorFlow's epsilon-hat; AdamW arXiv:1711.05101
enum class EpsilonForm : int32_t { kPyTorch = 0, kTensorFlow = 1 };
struct AdamUpdate {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  EpsilonForm epsilon_form = EpsilonForm::kPyTorch;
  bool bias_correction = true;
  bool decoupled = false;
  float weight_decay = 0;
  float lr_scale = 1;
  static constexpr std::string_view kName = "adam_update";
  static void fields(auto& self, auto&& f) {
    f("beta1", self.beta1), f("beta2", self.beta2), f("epsilon", self.epsilon);
    f("epsilon_form", self.epsilon_form), f("bias_correction", self.bias_correction);
    f("decoupled", self.decoupled), f("weight_decay", self.weight_decay),
        f("lr_scale", self.lr_scale);
  }
  bool operator==(const AdamUpdate&) const = default;
};

/// LAMB (arXiv:1904.00962): per variable, u = Adam's direction (kPyTorch) + weight_decay * p,
///   p <- p - lr * trust * u, trust = |p|/|u| if both are > 0, else 1
/// Norms are summed in f64 in a fixed order; without use_trust_ratio (norms, biases) trust is 1.
///   inputs, outputs   as AdamUpdate
struct LambUpdate {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  bool bias_correction = true;
  float weight_decay = 0;
  bool use_trust_ratio = true;
  float lr_scale = 1;
  static constexpr std::string_view kName = "lamb_update";
  static void fields(auto& self, auto&& f) {
    f("beta1", self.beta1), f("beta2", self.beta2), f("epsilon", self.epsilon);
    f("bias_correction", self.bias_correction), f("weight_decay", self.weight_decay);
    f("use_trust_ratio", self.use_trust_ratio), f("lr_scale", self.lr_scale);
  }
  bool operator==(const LambUpdate&) const = default;
};

/// ema <- d * ema + (1 - d) * p for n variables; d = decay, or with warmup
/// min(decay, (1 + t) / (10 + t)), t = step (already counted, from 1).
///   inputs    skip, step [] i64 (with warmup only), then ema_0.., p_0..
///   outputs   ema'_0.. aliasing them
///   source    of warmup: num_updates of TensorFlow's tf.train.ExponentialMovingAverage
struct EmaUpdate {
  float decay = 0.9999f;
  bool warmup = false;
  static constexpr std::string_view kName = "ema_update";
  static void fields(auto& self, auto&& f) { f("decay", self.decay), f("warmup", self.warmup); }
  bool operator==(const EmaUpdate&) const = default;
};

// ---- The list -----------------------------------------------------------------------------------

// clang-format off
// What computes values, not run if nobody reads them, and has a `grad`.
#define ASSAY_DIFFERENTIABLE_OPS(X)                                                                \
  X(Reshape) X(Slice) X(Transpose) X(Copy) X(Concat) X(Pointwise) X(SumTo) X(Dropout) X(Conv2d)    \
  X(Conv2dTranspose) X(Matmul) X(MaxPool) X(AvgPool) X(WeightedFusion) X(BatchNorm) X(LayerNorm)   \
  X(Attention) X(GatherRows) X(SoftmaxCrossEntropy) X(SigmoidCrossEntropy)                         \
  X(SoftTargetCrossEntropy) X(SoftDiceLoss) X(DetectionLoss)
// Likewise, but what they give has no gradient, or they come after differentiation.
#define ASSAY_GRADIENTLESS_OPS(X)                                                                  \
  X(Arange) X(OffsetIndex) X(PackedPlaces) X(MaskTokens) X(SampleTokens) X(ReplaceTokens)          \
  X(Input) X(Parameter) X(StepScalar) X(Fill) X(ImageFromBytes) X(MixRows) X(MixTargets)           \
  X(CountTargets) X(SliceGrad) X(Casts) X(ActivationGradSums) X(Conv2dGradData) X(Conv2dGradNorm)  \
  X(Conv2dGradWeight) X(MaxPoolGrad) X(AvgPoolGrad) X(WeightedFusionGrad) X(BatchNormGrad)         \
  X(SqueezedBatchNorm) X(SqueezedBatchNormGrad) X(BatchNormMaxPool) X(BatchNormMaxPoolGrad)        \
  X(BatchNormInference) X(FoldBatchNorm) X(LayerNormGrad) X(AttentionGrad) X(GatherRowsGrad)       \
  X(Softmax) X(SoftmaxCrossEntropyGrad) X(SigmoidCrossEntropyGrad) X(SoftTargetCrossEntropyGrad)   \
  X(SoftDiceLossGrad) X(TopK) X(TopKCorrect) X(GradientNorm) X(Anchors) X(MatchAnchors)            \
  X(DetectionLossGrad) X(TopCandidates) X(DecodeBoxes) X(SoftSuppression) X(HardSuppression)
#define ASSAY_VALUE_OPS(X) ASSAY_DIFFERENTIABLE_OPS(X) ASSAY_GRADIENTLESS_OPS(X)
// What changes memory that outlives the run, in place: run even if nobody reads its outputs.
#define ASSAY_UPDATE_OPS(X)                                                                        \
  X(RunningStatistics) X(Store) X(AllReduce) X(DecayGradients) X(ClipGradients) X(CountStep)       \
  X(LossScaleUpdate) X(SgdUpdate) X(AdamUpdate) X(LambUpdate) X(EmaUpdate)
#define ASSAY_OPS(X) ASSAY_VALUE_OPS(X) ASSAY_UPDATE_OPS(X)
// clang-format on

namespace detail {
template <class First, class... Rest>
struct SkipFirst {
  using Type = std::variant<Rest...>;
};
#define ASSAY_COMMA_OP(Name) , Name
using OpVariant = SkipFirst<void ASSAY_OPS(ASSAY_COMMA_OP)>::Type;
#undef ASSAY_COMMA_OP
}  // namespace detail

/// One op of the list. Made, copied and destroyed in ops.cpp: nearly every file has graphs, and a
/// variant of this size is long to compile.
struct Op : detail::OpVariant {
#define ASSAY_CONVERT(Name) Op(Name op);
  ASSAY_OPS(ASSAY_CONVERT)
#undef ASSAY_CONVERT
  Op();
  Op(const Op&);
  Op(Op&&) noexcept;
  Op& operator=(const Op&);
  Op& operator=(Op&&) noexcept;
  ~Op();
};

}  // namespace assay
