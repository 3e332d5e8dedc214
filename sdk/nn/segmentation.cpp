// What segmentation models share: upsampling, the loss of cross-entropy and DICE, the counts of an
// evaluation.
#include "sdk/nn/segmentation.h"

#include "sdk/graph/elementwise.h"

namespace assay::nn {

ValueId conv2d_transpose_3x3_double(Builder& b, std::string_view name, ValueId x,
                                    int64_t channels) {
  const auto scope = b.scope(name);
  const Dims in = b.dims(x);
  require(in.rank() == 4, Code::kInvalid, b.graph().scope(),
          ": transposed convolution needs x [N,H,W,C], got ", in);
  const Dims weight{in[3], 3, 3, channels};
  const ValueId w = b.parameter("weight", weight, glorot_uniform(weight));
  const ValueId bias = b.parameter("bias", {channels}, constant(0), VariableKind::kBias);
  // TensorFlow's SAME takes the padding of the forward convolution it is the gradient of: none
  // before, one behind, for even sizes.
  const Conv2dTranspose op{.geometry = {.stride = {2, 2}, .pad_begin = {0, 0}, .pad_end = {1, 1}},
                           .y_dims = {in[0], 2 * in[1], 2 * in[2], channels},
                           .has_bias = true};
  return b.graph().emit1(op, {x, w, bias});
}

ValueId centre_crop(Builder& b, ValueId x, int64_t rows, int64_t columns) {
  const Dims in = b.dims(x);
  require(in.rank() == 4 && rows <= in[1] && columns <= in[2], Code::kInvalid, b.graph().scope(),
          ": cannot crop ", rows, " x ", columns, " out of ", in);
  return b.graph().emit1(Slice{.begin = {0, (in[1] - rows) / 2, (in[2] - columns) / 2, 0},
                               .dims = {in[0], rows, columns, in[3]}},
                         {x});
}

ValueId concat_channels(Builder& builder, ValueId a, ValueId b) {
  return builder.graph().emit1(Concat{builder.dims(a).rank() - 1}, {a, b});
}

Outputs segmentation_outputs(Builder& b, ValueId logits) {
  Graph& g = b.graph();
  const Dims dims = b.dims(logits);
  if (b.mode() == Mode::kPredict) {
    const ValueId rows = g.emit1(Reshape{{dims.numel() / dims.back(), dims.back()}}, {logits});
    const ValueId probabilities = g.emit1(Reshape{dims}, {g.emit1(Softmax{}, {rows})});
    return {{"logits", logits}, {"probabilities", probabilities}};
  }
  const ValueId target =
      b.input({.name = "target", .sample = {dims[1], dims[2], dims[3]}, .is_label = true});
  const ValueId cross_entropy = g.emit1(SoftTargetCrossEntropy{b.training()}, {logits, target});
  const ValueId dice = g.emit1(SoftDiceLoss{.mean = b.training()}, {logits, target});
  const ValueId loss = add(g, cross_entropy, dice);
  const ValueId images = b.training() ? ValueId{} : g.emit1(CountTargets{}, {target});
  return {{std::string(kLoss), loss, Reduction::kMean, images},
          {"cross_entropy", cross_entropy, Reduction::kMean, images},
          {"dice_loss", dice, Reduction::kMean, images},
          {"logits", logits}};
}

}  // namespace assay::nn
