#include "models/answer_spans.h"

namespace assay::models {
namespace {

using Fn = PointwiseFn;
using Operand = PointwiseOperand;

// [N] or [N,L] as values that are repeated over the axes of `scores` between them.
ValueId beside(nn::Builder& b, ValueId value, const Dims& scores) {
  const Dims& dims = b.graph().type(value).dims;
  Dims repeated = scores;
  for (int axis = 1; axis < scores.rank(); ++axis) repeated[axis] = 1;
  if (dims.rank() == 2) repeated[scores.rank() - 1] = dims[1];
  return b.graph().emit1(Reshape{repeated}, {value});
}

ValueId places(nn::Builder& b, const Dims& scores) {
  const int64_t length = scores[scores.rank() - 1];
  return b.graph().emit1(Arange{.count = length, .period = length}, {});
}

ValueId cross_entropy(nn::Builder& b, ValueId scores, ValueId labels) {
  const auto reduction = b.training() ? Reduction::kMean : Reduction::kSum;
  return b.graph().emit(SoftmaxCrossEntropy{.reduction = reduction}, {scores, labels})[0];
}

}  // namespace

ValueId only_tokens(nn::Builder& b, ValueId scores, ValueId length) {
  const Dims dims = b.graph().type(scores).dims;
  const Operand x = Operand::input(0), place = Operand::input(1), end = Operand::input(2);
  return b.graph().emit1(Pointwise{{Fn::kSelect, {end, place, kForbidden, x}}, DType::kF32},
                         {scores, places(b, dims), beside(b, length, dims)});
}

ValueId only_paragraph(nn::Builder& b, ValueId scores, ValueId types, ValueId length) {
  const Dims dims = b.graph().type(scores).dims;
  const Operand x = Operand::input(0), place = Operand::input(1), end = Operand::input(2),
                type = Operand::input(3);
  PointwiseCode code;
  const Operand last = code.append(Fn::kSub, {end, 1.0f});
  const Operand before_last = code.append(Fn::kSelect, {last, place, kForbidden, x});
  const Operand in_paragraph = code.append(Fn::kSelect, {type, 0.0f, kForbidden, before_last});
  code.append(Fn::kSelect, {place, 0.0f, x, in_paragraph});
  return b.graph().emit1(
      Pointwise{code, DType::kF32},
      {scores, places(b, dims), beside(b, length, dims), beside(b, types, dims)});
}

ValueId span_loss(nn::Builder& b, ValueId start, ValueId start_labels, ValueId end,
                  ValueId end_labels) {
  PointwiseCode mean(Fn::kAdd, {Operand::input(0), Operand::input(1)});
  mean.append(Fn::kMul, {Operand::step(0), 0.5f});
  return b.graph().emit1(Pointwise{mean, {}}, {cross_entropy(b, start, start_labels),
                                               cross_entropy(b, end, end_labels)});
}

}  // namespace assay::models
