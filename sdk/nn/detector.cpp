// A detector as a list of outputs: one set while it trains, another when it predicts.
#include "sdk/nn/detector.h"

#include <algorithm>

#include "sdk/graph/elementwise.h"
#include "sdk/nn/layers.h"

namespace assay::nn {
namespace {

constexpr int64_t kMostBoxes = 99;     // of an image
constexpr int64_t kCandidates = 5000;  // of a prediction, before overlaps are looked at

ValueId anchors_of(Builder& b, const Detector& d) {
  const auto levels = static_cast<int64_t>(d.class_logits.size());
  return b.graph().emit1(Anchors{.rows = d.rows,
                                 .columns = d.columns,
                                 .first_level = d.first_level,
                                 .last_level = d.first_level + levels - 1},
                         {});
}

// Class logits, then box codes.
std::vector<ValueId> heads_of(const Detector& d) {
  std::vector<ValueId> heads = d.class_logits;
  heads.insert(heads.end(), d.box_codes.begin(), d.box_codes.end());
  return heads;
}

Outputs losses(Builder& b, const Detector& d) {
  Graph& g = b.graph();
  std::vector<InputSpec> specs;
  add_box_inputs(specs, b.mode(), d.classes);
  const ValueId boxes = b.input(specs[0]), classes = b.input(specs[1]), count = b.input(specs[2]);
  const ValueId anchors = anchors_of(b, d);
  const auto match = g.emit(MatchAnchors{}, {boxes, count, anchors});
  std::vector<ValueId> operands = heads_of(d);
  operands.insert(operands.end(), {boxes, classes, anchors, match[0], match[1]});
  const auto values = g.emit(DetectionLoss{}, operands);
  const ValueId images = b.training() ? ValueId{} : g.emit1(CountTargets{}, {count});
  const auto mean = [&](std::string_view name, ValueId value) {
    if (images.valid()) {
      const PointwiseCode product(PointwiseFn::kMul,
                                  {PointwiseOperand::input(0), PointwiseOperand::input(1)});
      value = g.emit1(Pointwise{product, {}}, {value, images});
    }
    return Output{std::string(name), value, Reduction::kMean, images};
  };
  return {mean(kLoss, values[0]), mean("class_loss", values[1]), mean("box_loss", values[2])};
}

Outputs predictions(Builder& b, const Detector& d) {
  Graph& g = b.graph();
  int64_t pairs = 0;
  for (const ValueId logits : d.class_logits) pairs += b.dims(logits).numel() / b.batch();
  const auto found = g.emit(TopCandidates{std::min(kCandidates, pairs)}, d.class_logits);
  const ValueId scores = activation(b, ActivationKind::kSigmoid, found[0]);
  std::vector<ValueId> operands = d.box_codes;
  operands.insert(operands.end(), {anchors_of(b, d), found[1]});
  const ValueId boxes = g.emit(DecodeBoxes{d.classes}, operands)[0];
  const Op suppression =
      d.suppression == "hard"
          ? Op(HardSuppression{.classes = d.classes, .limit = {d.rows, d.columns}})
          : Op(SoftSuppression{.classes = d.classes});
  const auto kept = g.emit(suppression, {boxes, scores, found[1]});
  return {{"boxes", kept[0]}, {"scores", kept[1]}, {"classes", kept[2]}};
}

}  // namespace

void add_box_inputs(std::vector<InputSpec>& inputs, Mode mode, int64_t classes) {
  if (mode == Mode::kPredict) return;
  inputs.push_back({.name = "boxes", .sample = {kMostBoxes, 4}, .is_label = true});
  inputs.push_back({.name = "classes",
                    .dtype = DType::kI32,
                    .sample = {kMostBoxes},
                    .is_label = true,
                    .range = IndexRange{0, classes},
                    .padding = -1});
  inputs.push_back({.name = "count",
                    .dtype = DType::kI32,
                    .sample = {},
                    .is_label = true,
                    .range = IndexRange{0, kMostBoxes + 1}});
  if (mode == Mode::kEval) inputs.back().padding = -1;
}

Outputs detector_outputs(Builder& b, const Detector& d) {
  if (b.mode() == Mode::kPredict) return predictions(b, d);
  Outputs outputs = losses(b, d);
  if (b.training()) return outputs;
  for (size_t i = 0; i < d.class_logits.size(); ++i) {
    const int64_t level = d.first_level + static_cast<int64_t>(i);
    outputs.push_back({cat("class_logits.", level), d.class_logits[i]});
    outputs.push_back({cat("box_codes.", level), d.box_codes[i]});
  }
  return outputs;
}

}  // namespace assay::nn
