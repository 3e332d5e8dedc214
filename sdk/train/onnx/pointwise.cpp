// Elementwise code, step by step.
#include <algorithm>

#include "sdk/graph/elementwise.h"
#include "sdk/train/onnx/converter.h"

namespace assay::onnx {
namespace {

using Fn = PointwiseFn;

// Those that are a node of their own.
std::string_view activation_node(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
      return "Relu";
    case ActivationKind::kElu:
      return "Elu";
    case ActivationKind::kTanh:
      return "Tanh";
    case ActivationKind::kSigmoid:
      return "Sigmoid";
    default:
      return "";
  }
}

std::string rounded(Converter& c, const std::string& x, DType dtype) {
  return c.cast(c.cast(x, dtype), DType::kF32);
}

std::string step_node(Converter& c, Fn fn, const Names& x) {
  switch (fn) {
    case Fn::kAdd:
      return c.emit("Add", x);
    case Fn::kSub:
      return c.emit("Sub", x);
    case Fn::kMul:
      return c.emit("Mul", x);
    case Fn::kDiv:
      return c.emit("Div", x);
    case Fn::kMax:
      return c.emit("Max", x);
    case Fn::kMin:
      return c.emit("Min", x);
    case Fn::kMulAdd:
      return c.emit("Add", {c.emit("Mul", {x[0], x[1]}), x[2]});
    case Fn::kSelect:
      return c.emit("Where", {c.emit("LessOrEqual", {x[0], x[1]}), x[2], x[3]});
    case Fn::kExp:
      return c.emit("Exp", x);
    case Fn::kExpm1:
      return c.emit("Sub", {c.emit("Exp", x), c.writer().number(1)});
    case Fn::kTanh:
      return c.emit("Tanh", x);
    case Fn::kSigmoid:
      return c.emit("Sigmoid", x);
    case Fn::kErf:
      return c.emit("Erf", x);
    case Fn::kBf16:
      return rounded(c, x[0], DType::kBf16);
    case Fn::kF16:
      return rounded(c, x[0], DType::kF16);
  }
  c.refuse("has a step without a counterpart");
}

// The number that all elements are.
std::optional<float> only_number(const Constant& constant) {
  if (constant.type.dtype != DType::kF32) return std::nullopt;
  const auto numbers = constant.as<float>();
  const auto differs = [&](float number) { return number != numbers[0]; };
  if (numbers.empty() || std::any_of(numbers.begin(), numbers.end(), differs)) return std::nullopt;
  return numbers[0];
}

// Of an operand for a result of blocks: all of them, seen as often as they are, or one number.
bool is_blocks_or_number(const Converter& c, ValueId x) {
  if (const Constant* constant = c.constant(x)) return only_number(*constant).has_value();
  const Dims &dims = c.dims(x), &to = c.dims(c.y());
  return dims.rank() == 6 && dims[0] == to[0] && dims[1] == to[1] && dims[3] == to[3] &&
         dims[5] == to[5];
}

// Whether operands and result can be images. One of them has to be one already.
bool are_images(const Converter& c) {
  const int rank = c.dims(c.y()).rank();
  const auto& operands = c.node().inputs;
  const auto is_image = [&](ValueId x) { return c.has_image(x); };
  const auto fits = [&](ValueId x) { return rank == 4 || is_blocks_or_number(c, x); };
  return (rank == 4 || rank == 6) && std::any_of(operands.begin(), operands.end(), is_image) &&
         std::all_of(operands.begin(), operands.end(), fits);
}

// With ones in front.
template <class List, class One>
List of_four_axes(List sizes, One one) {
  sizes.insert(sizes.begin(), 4 - sizes.size(), one);
  return sizes;
}

std::string image_operand(Converter& c, ValueId x) {
  const Dims& dims = c.dims(x);
  if (const Constant* constant = c.constant(x)) {
    if (c.dims(c.y()).rank() == 6) return c.writer().number(*only_number(*constant));
    const auto sizes =
        of_four_axes(std::vector<int64_t>(dims.span().begin(), dims.span().end()), int64_t{1});
    return c.permuted(*constant, Dims(sizes), {0, 3, 1, 2});
  }
  if (dims.rank() < 4)
    return c.emit("Transpose", {c.reshaped(c.plain(x), of_four_axes(c.sizes(x), Size{1}))},
                  {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  const Dims& to = c.dims(c.y());
  if (dims.rank() == 4 || (dims[2] == to[2] && dims[4] == to[4])) return c.image(x);
  return c.repeated(c.image(x), to[2] / dims[2], to[4] / dims[4]);  // a pixel for each block
}

// An operand that no step reads would still shape the result.
void check_shape(const Converter& c, const PointwiseCode& code) {
  const Dims& to = c.dims(c.y());
  for (int axis = 0; axis < to.rank(); ++axis) {
    bool found = to[axis] == 1;
    for (int i = 0; i < c.inputs(); ++i) {
      const Dims& from = c.dims(c.x(i));
      const int own = axis - (to.rank() - from.rank());
      found =
          found || (own >= 0 && from[own] == to[axis] && code.reads(PointwiseOperand::input(i)));
    }
    if (!found) c.refuse("repeats numbers that it does not read");
  }
}

}  // namespace

void convert(const Pointwise& op, Converter& c) {
  check_shape(c, op.code);
  const bool as_images = are_images(c);
  Names operands;
  for (const ValueId x : c.node().inputs) {
    std::string name = as_images ? image_operand(c, x) : c.plain(x);
    operands.push_back(c.type(x).dtype == DType::kF32 ? name : c.cast(name, DType::kF32));
  }
  const std::string_view node = activation_node(activation_of(op));
  Names steps;
  if (!node.empty()) {
    steps.push_back(c.emit(node, {operands[0]}));
  } else if (is_cast(op)) {
    steps.push_back(operands[0]);
  } else {
    for (const PointwiseStep& step : op.code.steps) {
      Names x;
      for (int i = 0; i < pointwise_operands(step.fn); ++i) {
        const PointwiseOperand& operand = step.operands[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(operand.index);
        x.push_back(operand.kind == PointwiseOperand::Kind::kNumber
                        ? c.writer().number(operand.number)
                    : operand.kind == PointwiseOperand::Kind::kInput ? operands[at]
                                                                     : steps[at]);
      }
      steps.push_back(step_node(c, step.fn, x));
    }
  }
  as_images ? c.set_image(c.y(), steps.back()) : c.set_plain(c.y(), steps.back());
}

}  // namespace assay::onnx
