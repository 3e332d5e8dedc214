// What segmentation models share: upsampling, the loss of cross-entropy and DICE, the counts of an
// evaluation.
#include "sdk/nn/segmentation.h"

#include "sdk/graph/elementwise.h"

namespace assay::nn {

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
