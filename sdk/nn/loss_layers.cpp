// Kinds of layers that end a network: losses, metrics, probabilities. In training losses are means;
// in evaluations they are sums over what counts, of which count_targets says how much it is.
#include "sdk/nn/layer_kind.h"
#include "sdk/nn/layers.h"

namespace assay::nn {
namespace {

constexpr LayerInput kTarget{"target", "like the logits", 2};
// In counted means: of a batch that is all padding the mean is 0.
constexpr float kCountEpsilon = 1e-12f;

void check_target(const Builder& b, const std::string& name, LayerInputs x) {
  expect(b.dims(x[1]) == b.dims(x[0]), {name, "target"}, b.dims(x[1]), b.dims(x[0]),
         ", like the logits");
}

void check_labels(const Builder& b, const std::string& name, LayerInputs x) {
  const Dims rows{b.dims(x[0])[0]};
  expect(b.dims(x[1]) == rows, {name, "labels"}, b.dims(x[1]), rows, ", one for each row of ",
         b.dims(x[0]));
}

ValueId times(Builder& b, ValueId x, PointwiseOperand factor) {
  return b.graph().emit1(
      Pointwise{PointwiseCode(PointwiseFn::kMul, {PointwiseOperand::input(0), factor}), {}}, {x});
}

struct SoftmaxCrossEntropyLayer {
  static constexpr LayerText kText{
      "softmax_cross_entropy",
      "Gives []: the loss of classes, whose numbers are the labels; "
      "rows of label -1 add nothing. In evaluations without smoothing"};
  static constexpr std::array kInputs{rows("logits"), integers("labels", "[N]", 1, 1)};
  double label_smoothing = 0;
  std::optional<std::string> mean;  // descriptions from before this key do not have it
  static int64_t classes(const Builder& b, LayerInputs x) { return b.dims(x[0])[1]; }
  void fields(ConfigFields& f) {
    f("label_smoothing", label_smoothing, "of the target, moved to all classes alike").in({0, 1});
    f("mean", mean, "in training, over all rows or over those whose label is not -1")
        .one_of({"rows", "counted"})
        .otherwise("rows");
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    check_labels(b, name, x);
    SoftmaxCrossEntropy op{0, assay::Reduction::kSum};
    if (b.training()) op = {static_cast<float>(label_smoothing), assay::Reduction::kMean};
    if (b.training() && mean == "counted") {
      op.reduction = assay::Reduction::kCountedMean;
      op.epsilon = kCountEpsilon;
    }
    return b.graph().emit(op, x)[0];
  }
};

struct SoftTargetCrossEntropyLayer {
  static constexpr LayerText kText{"soft_target_cross_entropy",
                                   "Gives []: the loss of classes at every pixel, mean of an "
                                   "image's; target: weights of the classes, all 0 adds nothing"};
  static constexpr std::array kInputs{with_channels("logits"), kTarget};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    check_target(b, name, x);
    return b.graph().emit1(SoftTargetCrossEntropy{b.training()}, {x[0], x[1]});
  }
};

struct SoftDiceLayer {
  static constexpr LayerText kText{"soft_dice",
                                   "Gives []: 1 - the DICE coefficient of probabilities and "
                                   "target, mean over the classes of an image"};
  static constexpr std::array kInputs{with_channels("logits"), kTarget};
  double epsilon = 1e-6;
  void fields(ConfigFields& f) {
    f("epsilon", epsilon, "added to numerator and denominator").in({0, 1, true, false});
  }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    check_target(b, name, x);
    return b.graph().emit1(
        SoftDiceLoss{.epsilon = static_cast<float>(epsilon), .mean = b.training()}, {x[0], x[1]});
  }
};

struct SigmoidCrossEntropyLayer {
  static constexpr LayerText kText{"sigmoid_cross_entropy",
                                   "Gives []: the loss of answers 0 and 1; target -1 adds nothing "
                                   "and does not count"};
  static constexpr std::array kInputs{numbers("logits", 1),
                                      integers("target", "like the logits", 1)};
  static int64_t classes(const Builder&, LayerInputs) { return 2; }
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    Graph& g = b.graph();
    check_target(b, name, x);
    const Dims flat{b.dims(x[0]).numel()};
    const auto y = g.emit(SigmoidCrossEntropy{.epsilon = kCountEpsilon},
                          {g.emit1(Reshape{flat}, {x[0]}), g.emit1(Reshape{flat}, {x[1]})});
    if (b.training()) return y[0];
    return g.emit1(Pointwise{PointwiseCode(PointwiseFn::kMul, {PointwiseOperand::input(0),
                                                               PointwiseOperand::input(1)}),
                             DType::kF32},
                   {y[0], y[1]});
  }
};

struct MeanLayer {
  static constexpr LayerText kText{"mean",
                                   "Gives []: the mean of all elements; in evaluations the sum "
                                   "of the means of the samples"};
  static constexpr std::array kInputs{numbers("x", 1)};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    const auto elements = static_cast<double>(b.dims(x[0]).numel());
    const double counted =
        b.training() ? elements : elements / static_cast<double>(b.dims(x[0])[0]);
    return times(b, b.graph().emit1(SumTo{}, {x[0]}), static_cast<float>(1 / counted));
  }
};

struct TopKCorrectLayer {
  static constexpr LayerText kText{"top_k_correct",
                                   "Gives []: how many labels are among the k largest logits of "
                                   "their rows",
                                   LayerModes::kEval};
  static constexpr std::array kInputs{rows("logits"), integers("labels", "[N]", 1, 1)};
  int64_t k = 1;
  static int64_t classes(const Builder& b, LayerInputs x) { return b.dims(x[0])[1]; }
  void fields(ConfigFields& f) { f("k", k, "1: the largest").in({1, 1 << 20, true}); }
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    check_labels(b, name, x);
    return b.graph().emit1(TopKCorrect{k}, {x[0], x[1]});
  }
};

struct CountTargetsLayer {
  static constexpr LayerText kText{"count_targets",
                                   "Gives []: how many targets are no padding: integers of 0 or "
                                   "more, or samples of numbers that are not 0 everywhere",
                                   LayerModes::kEval};
  static constexpr std::array kInputs{either("target")};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    return b.graph().emit1(CountTargets{}, {x[0]});
  }
};

struct ProbabilitiesLayer {
  static constexpr LayerText kText{"probabilities",
                                   "Gives the like of logits: softmax over the last axis",
                                   LayerModes::kPredict};
  static constexpr std::array kInputs{with_channels("logits")};
  void fields(ConfigFields&) {}
  ValueId emit(Builder& b, const std::string& name, LayerInputs x) const {
    const auto scope = b.scope(name);
    Graph& g = b.graph();
    const Dims dims = b.dims(x[0]);
    if (dims.rank() == 2) return g.emit1(Softmax{}, {x[0]});
    const ValueId flat = g.emit1(Reshape{{dims.numel() / dims.back(), dims.back()}}, {x[0]});
    return g.emit1(Reshape{dims}, {g.emit1(Softmax{}, {flat})});
  }
};

}  // namespace

std::span<const LayerKind> loss_layers() {
  static const std::array kTable{kind_of<SoftmaxCrossEntropyLayer>(),
                                 kind_of<SoftTargetCrossEntropyLayer>(),
                                 kind_of<SoftDiceLayer>(),
                                 kind_of<SigmoidCrossEntropyLayer>(),
                                 kind_of<MeanLayer>(),
                                 kind_of<TopKCorrectLayer>(),
                                 kind_of<CountTargetsLayer>(),
                                 kind_of<ProbabilitiesLayer>()};
  return kTable;
}

}  // namespace assay::nn
